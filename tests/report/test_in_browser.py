"""The pages in a real browser, from a file, with the network off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from chromium import Browser, Page, needs_chromium
from explained_cells import planted_cell
from levels import extended
from small_runs import sign, store, two_rounds

from netsim import load_scenario, simulate
from netsim.report.page import CHARTS, COMPARED, write_report
from netsim.run import Run

pytestmark = [needs_chromium, pytest.mark.slow]
DRAWN = "[...document.querySelectorAll('.chart')].every(chart => chart.dataset.drawn)"
NOT_WAITING = ("staleness", "delivered")      # charts of servers that take updates as they come
SCREENS = [(390, True), *extended([(1280, False), (1280, True), (390, False)])]      # width, dark
TIP = "document.getElementById('tip').hidden ? '' : document.getElementById('tip').innerText"
OPEN = "Number(document.querySelector('#gantt-controls input[type=number]').value)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with training, clusters, batteries: everything that a page can show."""
    scenario = load_scenario("quickstart", ["end.rounds=3"])
    return simulate(scenario, tmp_path_factory.mktemp("runs") / "quickstart", seed=1, workers=1)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run whose device ``poor 5`` has a slow clock; all end together, and yet it sets the pace."""
    folder = tmp_path_factory.mktemp("planted")
    text, device = planted_cell(1, "clock")
    (folder / "cell.toml").write_text(text.replace("rounds = 2", "rounds = 6").replace(
        "cohort = ", "cohort = 3 #"))
    return simulate(load_scenario(str(folder / "cell.toml")), folder / f"device-{device}", learning=False)


def look(
    browser: Browser, runs: list[Run], folder: Path, width: int = 1280, *, dark: bool = False, at: str = "",
) -> Page:
    """Write a page, open it, wait until it is drawn, and hold it to what every page must keep."""
    write_report(runs, folder / "page.html")
    page = browser.open((folder / "page.html").as_uri() + at, width, dark=dark)
    page.wait_for(DRAWN)
    assert page.errors == []
    assert [url for url in page.requests if not url.startswith("file:")] == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "the page is too wide"
    return page


def charts(page: Page) -> list[str]:
    return list(page.evaluate("[...document.querySelectorAll('.chart')].map(chart => chart.id)"))


def series(page: Page, chart: str, name: str, key: str) -> Any:
    return page.evaluate(
        f"document.getElementById('{chart}').spec.series.find(each => each.name === '{name}').{key}")


@pytest.mark.parametrize("screen", SCREENS)
def test_every_chart_is_drawn(browser: Browser, run: Run, tmp_path: Path, screen: tuple[int, bool]) -> None:
    page = look(browser, [run], tmp_path, screen[0], dark=screen[1])
    assert charts(page) == [name for name, *_ in CHARTS if name not in NOT_WAITING]
    for chart in charts(page):
        drawn = page.evaluate(f"""[...document.querySelectorAll('#{chart} g[clip-path] path')]
            .filter(mark => mark.getBoundingClientRect().width > 0).length""")
        assert drawn > 0, f"{chart} shows nothing"
        inside = f"""[...document.querySelectorAll('#{chart} .axes text')].every(text => {{
            const [box, all] = [text, text.ownerSVGElement].map(each => each.getBoundingClientRect());
            return box.left >= all.left - 1 && box.right <= all.right + 1 && box.bottom <= all.bottom + 2; }})"""
        assert page.evaluate(inside), f"{chart} writes beside its edge"
    page.close()


def test_the_charts_show_the_numbers_of_the_breakdown(browser: Browser, run: Run, tmp_path: Path) -> None:
    page = look(browser, [run], tmp_path)
    breakdown = run.breakdown()
    for part in ("compute", "upload", "wait"):
        assert series(page, "latency", part, "y") == breakdown.rounds[f"{part}_s"].to_list()
    assert series(page, "band", "band in use", "y") == breakdown.rounds["band_used"].to_list()
    assert series(page, "accuracy-seconds", "test accuracy", "x") == run.rounds["t1"].to_list()
    assert series(page, "accuracy-joules", "test accuracy", "x") == run.rounds["energy_j"].cum_sum().to_list()
    assert series(page, "accuracy-rounds", "test accuracy", "y") == run.rounds["accuracy"].to_list()
    rows = page.evaluate("[...document.querySelectorAll('#devices tbody tr')].map(row => row.cells[0].textContent)")
    assert rows == breakdown.devices["name"].to_list()
    page.evaluate("""(() => { const select = document.querySelector('#map-controls select');
        for (const option of select.options) { select.value = option.value; select.dispatchEvent(new Event('change')); }
        })()""")
    assert page.errors == []
    page.close()


def test_the_page_opens_on_the_slowest_round_and_a_bar_opens_its_own(
    browser: Browser, planted: Run, tmp_path: Path,
) -> None:
    slowest = planted.rounds.sort(["round_s", "round"], descending=[True, False])["round"][0]
    other = planted.rounds["round"].filter(planted.rounds["round"] != slowest)[-1]
    page = look(browser, [planted], tmp_path)
    assert page.evaluate(OPEN) == slowest
    page.middle("document.getElementById('latency')")
    left, bottom = page.evaluate(f"""(() => {{ const chart = document.getElementById('latency');
        const frame = chart.shown.svg.getBoundingClientRect(), mark = chart.marks[{other - 1}];
        return [frame.left + mark.x, frame.top + mark.y]; }})()""")
    page.click(left, bottom)
    assert page.evaluate(OPEN) == other
    assert page.evaluate("location.hash") == f"#round={other}"
    page.evaluate(f"location.hash = '#round={slowest}'")
    page.wait_for(f"{OPEN} === {slowest}")
    page.close()


def test_an_address_links_to_a_round(browser: Browser, planted: Run, tmp_path: Path) -> None:
    page = look(browser, [planted], tmp_path, at="#round=2")
    assert page.evaluate(OPEN) == 2
    assert "Round 2 took" in page.evaluate("document.getElementById('gantt-said').innerText")
    page.close()
    page = look(browser, [planted], tmp_path, at="#round=99")
    assert page.evaluate(OPEN) == planted.last_round
    assert "round 99 is not in this page" in page.evaluate("document.getElementById('gantt-controls').innerText")
    page.close()


def test_the_device_that_plans_made_anew_name_is_outlined(browser: Browser, planted: Run, tmp_path: Path) -> None:
    device = int(planted.path.name.removeprefix("device-"))
    page = look(browser, [planted], tmp_path)
    outlined = "[...document.querySelectorAll('#gantt .outlined')].map(each => Number(each.dataset.device))"
    assert page.evaluate(outlined) == [device]
    assert page.evaluate("document.querySelector('#gantt .axes .bold').textContent") == f"poor {device}"
    assert f"poor {device} limits round" in page.evaluate("document.getElementById('gantt-said').innerText")
    page.close()


def test_a_slice_tells_band_clock_rate_gain_and_energy_to_pointer_and_keyboard(
    browser: Browser, planted: Run, tmp_path: Path,
) -> None:
    page = look(browser, [planted], tmp_path)
    for chart in ("gantt", "timeline"):
        page.middle(f"document.getElementById('{chart}')")
        find = f"document.getElementById('{chart}').marks.findIndex(mark => mark.lines()[1].startsWith('upload'))"
        at = page.evaluate(find)
        x, y = page.evaluate(f"""(() => {{ const chart = document.getElementById('{chart}');
            const frame = chart.shown.svg.getBoundingClientRect(), mark = chart.marks[{at}];
            return [frame.left + mark.x, frame.top + mark.y]; }})()""")
        page.call("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})
        pointed = page.evaluate(TIP)
        for what in ("upload", "band", "clock", "rate", "gain", "energy"):
            assert what in pointed
    page.evaluate("document.getElementById('gantt').focus()")
    page.press("Home")
    assert "compute" in page.evaluate(TIP)
    page.press("ArrowRight")
    assert "upload" in page.evaluate(TIP)
    first = page.evaluate(TIP)
    page.press("ArrowDown")
    assert page.evaluate(TIP) != first
    page.press("Escape")
    assert page.evaluate(TIP) == ""
    page.close()


@pytest.mark.parametrize("several", [False, True])
def test_the_keyboard_reaches_everything_and_one_sees_where_it_is(
    browser: Browser, planted: Run, tmp_path: Path, several: bool,
) -> None:
    page = look(browser, [planted, planted] if several else [planted], tmp_path)
    wanted = set(page.evaluate("""[...document.querySelectorAll(
        '.chart, button, input, select, a[href], summary, [role=region]')].map((each, at) => {
            each.dataset.stop = at; return String(at); })"""))
    names = page.evaluate("""[...document.querySelectorAll('.chart, button, input, select, [role=region]')]
        .map(each => each.getAttribute('aria-label') || '')""")
    assert all(names)
    seen, rings = set(), set()
    for _ in range(3 * len(wanted)):
        page.press("Tab")
        stop, ring = page.evaluate("[document.activeElement.dataset.stop, "
                                   "getComputedStyle(document.activeElement).outlineStyle]")
        seen.add(stop)
        if stop in wanted:
            rings.add(ring)
    assert wanted <= seen
    assert rings == {"solid"}
    page.close()


def test_the_timeline_is_zoomed_by_wheel_drag_and_keyboard(browser: Browser, planted: Run, tmp_path: Path) -> None:
    page = look(browser, [planted], tmp_path)
    view = "(({ lo, hi }) => [lo, hi])(document.getElementById('timeline').shown.view)"
    whole = page.evaluate(view)
    assert whole == [planted.rounds["t0"][0], planted.rounds["t1"][-1]]
    x, y = page.middle("document.getElementById('timeline')")
    page.evaluate("new Promise(done => setTimeout(done, 300))")       # the page has come to rest
    page.wheel(x, y, -100)
    page.wait_for(f"{view}[1] - {view}[0] < {0.9 * (whole[1] - whole[0])}")
    zoomed = page.evaluate(view)
    page.drag(x, y, 100)
    page.wait_for(f"{view}[0] < {zoomed[0]}")
    assert page.evaluate(view)[1] - page.evaluate(view)[0] == pytest.approx(zoomed[1] - zoomed[0])
    page.evaluate("document.getElementById('timeline').focus()")
    page.press("0")
    assert page.evaluate(view) == whole
    page.press("+")
    page.press("+")
    assert page.evaluate(view)[1] - page.evaluate(view)[0] == pytest.approx((whole[1] - whole[0]) / 4)
    page.press("Home")                                              # the first round, which is brought into view
    assert "round 1" in page.evaluate(TIP)
    assert page.evaluate(view)[0] <= planted.rounds["t1"][0] / 2 <= page.evaluate(view)[1]
    page.press("ArrowRight")
    page.press("Enter")
    assert page.evaluate(OPEN) == 2
    page.close()


def test_the_theme_follows_the_system(browser: Browser, run: Run, tmp_path: Path) -> None:
    page = look(browser, [run], tmp_path)
    background = "getComputedStyle(document.body).backgroundColor"
    bars = "getComputedStyle(document.querySelector('#latency [data-part=compute]')).fill"
    light = page.evaluate(background), page.evaluate(bars)
    page.call("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    page.wait_for(f"{bars} !== '{light[1]}'")
    assert page.evaluate(background) != light[0]
    page.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_runs_side_by_side(browser: Browser, run: Run, tmp_path: Path, screen: tuple[int, bool]) -> None:
    page = look(browser, [run, run], tmp_path, screen[0], dark=screen[1])
    assert charts(page) == ["compare-gantt-0", "compare-gantt-1", *(name for name, *_ in COMPARED)]
    mean = run.breakdown().totals["compute_s"] / run.last_round
    assert series(page, "compare-latency", "compute", "y") == [mean, mean]
    page.close()


def test_two_runs_show_what_was_changed_and_the_same_round_on_one_scale(
    browser: Browser, planted: Run, tmp_path: Path,
) -> None:
    scenario = load_scenario(str(planted.path / "scenario.toml"), ["allocation.method=equal"])
    equal = simulate(scenario, tmp_path / "equal", learning=False)
    page = look(browser, [planted, equal], tmp_path, at="#round=2")
    cells = """[...document.querySelectorAll('#changed tbody tr')]
        .map(row => [...row.cells].map(cell => cell.textContent))"""
    assert ["allocation.method", "sao", "equal"] in page.evaluate(cells)
    ends = page.evaluate("[0, 1].map(at => document.getElementById(`compare-gantt-${at}`).spec.x.hi)")
    assert ends == [max(planted.rounds["round_s"][1], equal.rounds["round_s"][1])] * 2
    drawn = page.evaluate("[0, 1].map(at => document.getElementById(`compare-gantt-${at}`).marks.length)")
    assert min(drawn) >= 6
    ratio = equal.summary["simulated_s"] / planted.summary["simulated_s"] - 1
    numbers = page.evaluate("document.getElementById('comparison').innerText")
    assert f"{100 * ratio:+.1f} %" in numbers
    page.close()


def test_a_strangers_page_runs_no_script_of_theirs(browser: Browser, tmp_path: Path) -> None:
    evil = "<img src=x onerror=\"document.title='owned'\"></script><script>document.title='owned'</script>"
    stranger = store(tmp_path / "run", *two_rounds(), rounds=2, scenario=evil)
    devices = pl.read_parquet(stranger.path / "devices.parquet")
    devices.with_columns(name=pl.lit(evil), kind=pl.lit(evil)).write_parquet(stranger.path / "devices.parquet")
    sign(stranger.path)
    page = look(browser, [Run(stranger.path)], tmp_path)
    assert page.evaluate("document.title") == f"{evil}, seed 7"
    assert charts(page) == [name for name, *_ in CHARTS if name not in ("classes", "clusters", *NOT_WAITING)]
    page.evaluate("document.getElementById('gantt').focus()")
    page.press("Home")
    assert page.evaluate(TIP).startswith(evil)
    assert page.evaluate("document.querySelectorAll('img').length") == 0
    page.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_servers_that_do_not_wait(browser: Browser, tmp_path: Path, screen: tuple[int, bool]) -> None:
    scenario = load_scenario("fedbuff", ["end.rounds=12"])
    run = simulate(scenario, tmp_path / "fedbuff", seed=1, learning=False)
    page = look(browser, [run], tmp_path, screen[0], dark=screen[1], at="#round=7")
    assert set(NOT_WAITING) < set(charts(page))
    tau = run.jobs.filter(pl.col("outcome") == "arrived")["staleness"]
    assert series(page, "staleness", "amount", "y") == [(tau == value).sum() for value in range(int(tau.max()) + 1)]
    assert sum(series(page, "delivered", "amount", "y")) == len(tau) == 36
    assert "fastest delivered" in page.evaluate("document.getElementById('delivered-said').innerText")
    jobs, began = run.jobs.filter(pl.col("round") == 7), run.rounds["t0"][6]
    assert 0 > page.evaluate("document.getElementById('gantt').spec.x.lo") == pytest.approx(min(jobs["t0"]) - began)
    page.close()

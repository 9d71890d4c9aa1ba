"""The pages in a real browser, from a file, with the network off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import Browser, Page, needs_chromium
from small_runs import store, two_rounds

from netsim import load_scenario, simulate
from netsim.report.page import CHARTS, COMPARED, write_report
from netsim.run import Run

pytestmark = [needs_chromium, pytest.mark.slow]
DRAWN = "[...document.querySelectorAll('.chart')].every(chart => chart.dataset.drawn)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with training, clusters, batteries: everything that a page can show."""
    scenario = load_scenario("quickstart", ["end.rounds=3"])
    return simulate(scenario, tmp_path_factory.mktemp("runs") / "quickstart", seed=1, workers=1)


def look(browser: Browser, runs: list[Run], folder: Path, width: int = 1280, *, dark: bool = False) -> Page:
    """Write a page, open it, wait until it is drawn, and hold it to what every page must keep."""
    write_report(runs, folder / "page.html")
    page = browser.open((folder / "page.html").as_uri(), width, dark=dark)
    page.wait_for(DRAWN)
    assert page.errors == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "the page is too wide"
    return page


def charts(page: Page) -> list[str]:
    return list(page.evaluate("[...document.querySelectorAll('.chart')].map(chart => chart.id)"))


def trace(page: Page, chart: str, name: str, key: str) -> Any:
    return page.evaluate(f"[...document.getElementById('{chart}').data.find(trace => trace.name === '{name}').{key}]")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_every_chart_is_drawn(browser: Browser, run: Run, tmp_path: Path, width: int, dark: bool) -> None:
    page = look(browser, [run], tmp_path, width, dark=dark)
    assert charts(page) == [name for name, *_ in CHARTS]
    for chart in charts(page):
        drawn = page.evaluate(f"""[...document.getElementById('{chart}').querySelectorAll(
            '.bars path, .scatterlayer path, .heatmaplayer image')]
            .filter(mark => mark.getBoundingClientRect().width > 0).length""")
        assert drawn > 0, f"{chart} shows nothing"
    page.close()


def test_the_charts_show_the_numbers_of_the_breakdown(browser: Browser, run: Run, tmp_path: Path) -> None:
    page = look(browser, [run], tmp_path)
    breakdown = run.breakdown()
    for part in ("compute", "upload", "wait"):
        assert trace(page, "latency", part, "y") == breakdown.rounds[f"{part}_s"].to_list()
    assert trace(page, "band", "band in use", "y") == breakdown.rounds["band_used"].to_list()
    took_part = breakdown.devices
    assert trace(page, "budgets", "largest round", "y") == took_part["most_j"].to_list()
    assert trace(page, "budgets", "budget", "y") == took_part["budget_j"].to_list()
    assert trace(page, "accuracy-seconds", "test accuracy", "x") == run.rounds["t1"].to_list()
    assert trace(page, "accuracy-rounds", "test accuracy", "y") == run.rounds["accuracy"].to_list()
    rows = page.evaluate("[...document.querySelectorAll('#devices tbody tr')].map(row => row.cells[0].textContent)")
    assert rows == breakdown.devices["name"].to_list()
    page.close()


def test_the_gantt_chart_goes_to_any_round(browser: Browser, run: Run, tmp_path: Path) -> None:
    page = look(browser, [run], tmp_path)
    page.evaluate("document.querySelector('#gantt-controls [aria-label=\"next round\"]').click()")
    assert page.evaluate("document.querySelector('#gantt-controls input[type=number]').value") == "2"
    shown = run.breakdown().round(2)
    assert sorted(trace(page, "gantt", "compute", "x")) == pytest.approx(sorted(shown["compute_s"]), abs=1e-12)
    assert sum(trace(page, "gantt", "critical path", "x")) == pytest.approx(run.rounds["round_s"][1], abs=1e-12)
    page.evaluate("""(() => { const select = document.querySelector('#map-controls select');
        for (const option of select.options) { select.value = option.value; select.dispatchEvent(new Event('change')); }
        })()""")
    assert page.errors == []
    page.close()


def test_the_theme_follows_the_system(browser: Browser, run: Run, tmp_path: Path) -> None:
    page = look(browser, [run], tmp_path)
    background = "getComputedStyle(document.body).backgroundColor"
    bars = "document.getElementById('latency').data[0].marker.color"
    light = page.evaluate(background), page.evaluate(bars)
    page.call("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    page.wait_for(f"{bars} !== '{light[1]}'")
    assert page.evaluate(background) != light[0]
    page.close()


def test_runs_side_by_side(browser: Browser, run: Run, tmp_path: Path) -> None:
    page = look(browser, [run, run], tmp_path, 390)
    assert charts(page) == [name for name, *_ in COMPARED]
    mean = run.breakdown().totals["compute_s"] / run.last_round
    assert trace(page, "compare-latency", "compute", "y") == [mean, mean]
    page.close()


def test_a_strangers_page_runs_no_script_of_theirs(browser: Browser, tmp_path: Path) -> None:
    evil = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    stranger = store(tmp_path / "run", *two_rounds(), rounds=2, scenario=evil)
    page = look(browser, [stranger], tmp_path)
    assert page.evaluate("document.title") == f"{evil}, seed 7"
    assert charts(page) == [name for name, *_ in CHARTS if name not in ("classes", "clusters")]
    page.close()

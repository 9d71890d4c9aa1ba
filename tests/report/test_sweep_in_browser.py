"""The page about a sweep in a real browser, from a file, with the network off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import Browser, Page, needs_chromium
from levels import extended

from netsim import run_sweep
from netsim.allocation import Problem, allocate
from netsim.report.sweep_page import CHARTS
from netsim.sweep.results import SweepResults

pytestmark = [needs_chromium, pytest.mark.slow]
DRAWN = "[...document.querySelectorAll('.chart')].every(chart => chart.dataset.drawn)"
SCREENS = [(390, True), *extended([(1280, False), (1280, True), (390, False)])]      # width, dark


def fails(problem: Problem) -> Any:
    raise ValueError("it <b>never</b> works")


def equal(problem: Problem) -> Any:
    return allocate(problem, "equal")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def learned() -> SweepResults:
    small = {"base": "quickstart", "end": {"rounds": 4}, "selection": {"method": "fedavg", "cohort": 3},
             "learning": {"local_iterations": 1, "target_accuracy": 0.95}}
    return run_sweep(small, {"cell.bandwidth": ["10 MHz", "20 MHz"], "allocation": ["sao", fails]}, seeds=3)


@pytest.fixture(scope="module")
def played() -> SweepResults:
    return run_sweep("tiny", {"cell.bandwidth": ["5 MHz", "10 MHz"], "allocation": ["sao", equal]}, seeds=2)


def look(browser: Browser, sweep: SweepResults, folder: Path, width: int = 1280, *, dark: bool = False) -> Page:
    page = browser.open(sweep.report(folder / "page.html").as_uri(), width, dark=dark)
    page.wait_for(DRAWN)
    assert page.errors == []
    assert [url for url in page.requests if not url.startswith("file:")] == []
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "the page is too wide"
    return page


def rows(page: Page, table: str) -> list[list[str]]:
    return list(page.evaluate(f"""[...document.querySelectorAll('#{table} tbody tr')].map(
        (row) => [...row.cells].map((cell) => cell.innerText))"""))


@pytest.mark.parametrize("screen", SCREENS)
def test_every_chart_of_a_sweep_is_drawn(
    browser: Browser, learned: SweepResults, played: SweepResults, tmp_path: Path, screen: tuple[int, bool],
) -> None:
    for sweep, wanted in ((learned, [name for name, *_ in CHARTS]),
                          (played, [name for name, trained, *_ in CHARTS if not trained])):
        page = look(browser, sweep, tmp_path, screen[0], dark=screen[1])
        assert page.evaluate("[...document.querySelectorAll('.chart')].map(chart => chart.id)") == wanted
        for chart in wanted:
            drawn = page.evaluate(f"""[...document.querySelectorAll('#{chart} g[clip-path] path')]
                .filter(mark => mark.getBoundingClientRect().width > 0).length""")
            assert drawn > 0, f"{chart} shows nothing"
        page.close()


def test_the_tables_are_those_of_python(browser: Browser, learned: SweepResults, tmp_path: Path) -> None:
    page = look(browser, learned, tmp_path)
    first, failed, second, _ = rows(page, "cases")
    of = learned.cases[0].over("accuracy")
    assert first[:5] == ["10 MHz", "sao", "3", "", f"{100 * of.mean:.2f} % ± {100 * of.half:.2f} % "
                         f"({100 * of.median:.2f} %)"]
    assert failed[:5] == ["10 MHz", "fails", "0", "3 of 3", ""]
    told = page.evaluate("document.querySelector('.warning').innerText")
    assert "10 MHz, fails: 3 of 3 seeds: " in told
    assert "it <b>never</b> works" in told      # as text
    apart = learned.differences()["round_s"][2]
    assert rows(page, "differences")[2][4].startswith("−" if apart < 0 else "+")
    assert second[4] == first[4]        # the band does not touch what is learned
    page.close()


def test_a_case_and_a_target_are_chosen_with_the_keyboard(
    browser: Browser, learned: SweepResults, tmp_path: Path,
) -> None:
    page = look(browser, learned, tmp_path)
    page.evaluate("document.querySelector('#differences-controls select').focus()")
    for _ in range(2):
        page.press("ArrowDown")
    page.wait_for("document.querySelector('#differences-controls select').value === '2'")
    assert rows(page, "differences")[2][4] == ""
    assert rows(page, "differences")[0][4] != ""
    page.evaluate("document.querySelector('#target-controls input[type=range]').focus()")
    before = page.evaluate("document.activeElement.value")
    page.press("ArrowLeft")
    target = float(page.wait_for(f"document.activeElement.value !== '{before}' && document.activeElement.value"))
    found = learned.to_target(target / 100)
    shown = rows(page, "target")
    assert [row[2] for row in shown] == [f"{reached} of {len(case.rows)} seeds"
                                         for reached, case in zip(found["reached"], learned.cases, strict=True)]
    assert float(shown[0][3].split()[0]) == pytest.approx(found["rounds"][0], abs=0.06)
    page.evaluate("""(() => { const number = document.querySelector('#target-controls input[type=number]');
        number.value = '100'; number.dispatchEvent(new Event('input')); })()""")
    assert rows(page, "target")[0][2:] == ["0 of 3 seeds", "", "", ""]
    page.close()

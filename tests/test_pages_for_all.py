"""Every page on a desk and in a hand, by day and by night: axe-core finds nothing serious, no request, no error.

axe-core comes with a package of the extra ``test``. A page is opened once and shown on one screen after the other.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from chromium import Browser, Page, needs_chromium
from levels import extended

pytest.importorskip("axe_playwright_python", reason="no axe-core here: the pages are not judged")
pytest.importorskip("marimo", reason="no marimo here: the lab is not tried")
pytestmark = [needs_chromium, pytest.mark.slow]

AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
FOUND = """axe.run(document, {resultTypes: ['violations']}).then((found) => found.violations
    .filter((rule) => ['serious', 'critical'].includes(rule.impact))
    .map((rule) => [rule.id, rule.nodes.map((node) => `${node.target.flat(3).join(' ')}: ${node.html.slice(0, 99)}`)]
    ))"""
SCREENS = [(1280, 900, False), (1280, 900, True), (390, 844, True), (390, 844, False)]
REPORTS = ("run", "comparison", "sweep")
SERVED = extended(["lesson-1/", "", "lesson-9/"])
DRAWN = "[...document.querySelectorAll('.chart')].every(chart => chart.dataset.drawn)"
SHOWN = "deep('svg[role=img]').length && deep('[role=slider]').length"
NAMED = "deep('[role=slider]').every((thumb) => thumb.ariaLabel)"
# whether letters are brighter than the middle; a canvas knows every way to write a colour
DARK = """(() => { const pen = document.createElement('canvas').getContext('2d');
    pen.fillStyle = getComputedStyle(document.querySelector('h1')).color;
    pen.fillRect(0, 0, 1, 1);
    return pen.getImageData(0, 0, 1, 1).data[1] > 128; })()"""
HIGHER = """deep('.katex-display, div.math-wrapper, div.math').map(
    (formula) => formula.scrollHeight - formula.clientHeight)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A run, a comparison of two, and a sweep: where their pages are."""
    from netsim import load_scenario, run_sweep, simulate
    from netsim.report.page import write_report

    folder = tmp_path_factory.mktemp("pages")
    runs = [simulate(load_scenario("tiny", [f"allocation.method={method}"]), folder / method)
            for method in ("equal", "sao")]
    write_report(runs[:1], folder / "run.html")
    write_report(runs, folder / "comparison.html")
    run_sweep("tiny", {"cell.bandwidth": ["5 MHz", "10 MHz"]}, seeds=2).report(folder / "sweep.html")
    return {name: (folder / f"{name}.html").as_uri() for name in REPORTS}


@pytest.fixture(scope="module")
def lab() -> Iterator[str]:
    server = subprocess.Popen([sys.executable, "-m", "netsim", "lab", "--no-browser", "--port", "23000"], text=True,
                              stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert server.stdout is not None
    yield server.stdout.readline().split()[2]
    server.terminate()
    server.wait(20)


def judge(page: Page) -> None:
    """What axe-core says, on every screen; and that the page fits, and is dark where it should be."""
    for width, height, dark in SCREENS:
        page.screen(width, height, dark=dark)
        page.wait_for(f"{DARK} === {json.dumps(dark)}")
        page.wait_for("document.documentElement.scrollWidth <= innerWidth")
        page.evaluate("new Promise((done) => setTimeout(done, 400))")        # what the page does once it is quiet
        assert page.evaluate(FOUND) == [], f"at {width} x {height}, {'dark' if dark else 'light'}"
    assert page.errors == []


@pytest.mark.parametrize("name", [REPORTS[0], *extended(REPORTS[1:])])
def test_a_report(browser: Browser, reports: dict[str, str], name: str) -> None:
    page = browser.open(reports[name], script=AXE)
    page.wait_for(DRAWN)
    judge(page)
    assert page.requests == [reports[name]]
    page.close()


@pytest.mark.parametrize("where", SERVED, ids=lambda where: where.strip("/") or "lab")
def test_a_page_of_the_lab(browser: Browser, lab: str, where: str) -> None:
    page = browser.open(lab + where, script=AXE)
    page.wait_for(SHOWN)
    page.wait_for(NAMED)
    if not where:
        page.wait_for("deep('button[role=switch]').length")
        page.evaluate("deep('button[role=switch]')[0].click()")
        page.wait_for("deep('iframe')[0]?.contentDocument?.getElementById('clock')?.textContent")
    judge(page)
    assert page.requests_elsewhere == []
    check_formulas(page)
    for title, words in page.evaluate("""deep('svg[role=img]').map((drawing) =>
            ['title', 'desc'].map((tag) => drawing.querySelector(':scope > ' + tag)?.textContent || ''))"""):
        assert title
        assert re.search(r"\d", words), f"{title} is not told in numbers"
    page.close()


def check_formulas(page: Page) -> None:
    """No displayed formula is higher than its place, where Chromium would draw a scrollbar beside it."""
    for width, scale in ((1280, 1), (1280, 2), (390, 1), (390, 2)):
        page.screen(width, scale=scale)
        page.evaluate("new Promise((done) => setTimeout(done, 100))")
        assert max(page.evaluate(HIGHER), default=0) <= 0, f"a formula at {width} pixels, scale {scale}"


@pytest.mark.extended
def test_formulas_of_the_site(browser: Browser, tmp_path: Path) -> None:
    pytest.importorskip("furo", reason="no theme here: the site is not built")
    docs = Path(__file__).parents[1] / "docs"
    shutil.copy(docs / "background.md", tmp_path / "index.md")
    build = ["-m", "sphinx", "-q", "-b", "html", "-c", str(docs), str(tmp_path), str(tmp_path / "site")]
    subprocess.run([sys.executable, *build], check=True, capture_output=True)
    page = browser.open((tmp_path / "site" / "index.html").as_uri())
    assert len(page.evaluate(HIGHER)) >= 6
    check_formulas(page)
    page.close()


# The link that holds the settings.

VALUES = "Object.fromEntries(deep('[data-key]').map((place) => [place.dataset.key, place.dataset.value]))"
TOLD = "deep('.notice').map((line) => line.innerText).filter(Boolean)"


def opened(browser: Browser, address: str) -> Page:
    page = browser.open(address)
    page.wait_for(SHOWN)
    page.wait_for(NAMED)
    return page


def test_a_link_brings_back_what_was_chosen(browser: Browser, lab: str) -> None:
    page = opened(browser, lab)
    thumbs = page.evaluate("deep('[role=slider]').map((thumb) => [thumb.ariaLabel, thumb.ariaValueText])")
    assert thumbs[:4] == [["bandwidth (MHz)", "20"], ["transmit power (dBm)", "23"],
                          ["energy budget (mJ), lower end", "15"], ["energy budget (mJ), upper end", "30"]]
    page.evaluate("deep('[role=slider]')[0].focus()")
    page.press("ArrowRight")
    page.evaluate("deep('[role=slider]')[3].focus()")
    page.press("ArrowLeft")
    page.evaluate("deep('select')[0].focus()")
    page.press("ArrowDown")
    page.wait_for("/bandwidth=22&.*energy-budget=15-29&/.test(location.search)")
    page.wait_for(f"{VALUES}.left !== 'equal'")
    page.wait_for(f"location.search.includes('left=' + {VALUES}.left)")
    chosen = page.evaluate(VALUES)
    line = page.evaluate("document.querySelector('details.link code').textContent")
    address = page.evaluate("location.href")
    times = page.evaluate("[...document.querySelectorAll('.headline')].map((each) => each.dataset.roundS)")
    assert line == f'netsim lab --link "?{address.split("?")[1]}"'
    assert lab.split("/")[3] not in line                     # the word that lets in stays here
    assert page.evaluate("history.length") <= 2              # "back" does not lead through every step
    page.close()

    page = opened(browser, address)
    assert page.evaluate(VALUES) == chosen
    assert page.evaluate("[...document.querySelectorAll('.headline')].map((each) => each.dataset.roundS)") == times
    assert page.evaluate(TOLD) == []
    page.close()


@pytest.mark.extended
def test_what_a_link_can_not_mean_is_told(browser: Browser, lab: str) -> None:
    page = opened(browser, f"{lab}?bandwidth=900&energy-budget=30-15&left=../../etc/passwd&draw=__import__('os')"
                           "&cohort-size=7&wibble=%3Cscript%3Ealert(1)%3C/script%3E")
    assert page.evaluate(VALUES) == {
        "bandwidth": "20", "transmit-power": "23", "energy-budget": "15-30", "cohort-size": "7", "model-size": "448",
        "cpu-range": "0.2-2", "left": "equal", "right": "sao", "the-band-is-shared": "planned", "draw": "4"}
    page.wait_for(f"{TOLD}.length === 5")
    told = " ".join(page.evaluate(TOLD))
    for piece in ("“900”. It should be from 1 to 100; now it is 20", "“30-15”", "“../../etc/passwd”", "__import__",
                  "“wibble”, which this page has no control for"):
        assert piece in told
    assert page.errors == []
    page.close()
    page = opened(browser, f"{lab}lesson-1/?bandwidth=5&distance=nan")
    assert page.evaluate(VALUES)["bandwidth"] == "5"
    assert page.evaluate(VALUES)["distance"] == "200"
    page.close()

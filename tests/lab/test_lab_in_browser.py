"""The lab and two lessons in a real browser, with the network off."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from chromium import Browser, needs_chromium
from typer.testing import CliRunner

from netsim.cli import app
from netsim.lab.settings import Settings

pytest.importorskip("marimo", reason="no marimo here: the lab is not tried")
pytestmark = [needs_chromium, pytest.mark.slow]

TIMES = """Object.fromEntries([...document.querySelectorAll('.headline')].map(
    (e) => [e.dataset.method, e.dataset.roundS || null]))"""
BANDWIDTH, POWER, BUDGET_LOW, BUDGET_HIGH, COHORT = range(5)        # the sliders, as they come


@pytest.fixture(scope="module")
def address():
    """The command that a teacher gives, on a port that is taken, so that it takes the next."""
    from netsim.lab.web_server import free_socket

    with free_socket(21000) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        server = subprocess.Popen(
            [sys.executable, "-m", "netsim", "lab", "--no-browser", "--port", str(port)], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"})
        found = re.search(r"http://127\.0\.0\.1:(\d+)/[\w-]+/", server.stdout.readline())
        assert int(found[1]) > port
        assert server.stderr.readline() == f"port {port} is taken; using {found[1]}\n"
        yield found[0]
        server.terminate()
        server.wait(20)


@pytest.fixture(scope="module")
def browser():
    with Browser() as opened:
        yield opened


def opened(browser, address, width=1280):
    page = browser.open(address, width)
    page.wait_for("deep('svg[role=img]').length")
    return page


def press(page, slider, key, times=1):
    """Move a slider as a person with a keyboard would: look where it is, press, see it move.

    A page that is still loading replaces its sliders, and a key between the two is lost: then press again.
    """
    thumb = f"deep('[role=slider]')[{slider}]"
    for _ in range(times):
        before = page.evaluate(f"{thumb}.ariaValueNow")
        moved = f"{thumb} && {thumb}.ariaValueNow !== {json.dumps(before)}"
        for patience in (5, 5, 10):
            page.evaluate(f"{thumb}.focus()")
            page.press(key)
            with suppress(TimeoutError):
                page.wait_for(moved, patience)
                break
        else:
            raise AssertionError(f"slider {slider} did not move on {key} from {before}\nerrors: {page.errors}")


def allocated(chosen, folder):
    """What `netsim allocate` says about the scenario that the sliders describe."""
    file = folder / "my-lab.toml"
    file.write_text(chosen.scenario_file())
    methods = [word for method in chosen.methods for word in ("--method", method)]
    done = CliRunner().invoke(app, ["allocate", str(file), "--seed", str(chosen.seed), "--json", *methods])
    return {entry["method"]: entry["round_s"] for entry in json.loads(done.stdout)}


def shows(page, expected):
    """Whether the page has come to show these round times."""
    wanted = {method: None if time is None else repr(time) for method, time in expected.items()}
    page.wait_for(f"JSON.stringify({TIMES}) === {json.dumps(json.dumps(wanted, separators=(',', ':')))}", 20)


def test_a_slider_moves_the_round_to_what_allocate_says(browser, address, tmp_path):
    page = opened(browser, address)
    shows(page, allocated(Settings(), tmp_path))
    press(page, BANDWIDTH, "ArrowRight")
    shows(page, allocated(Settings(bandwidth_mhz=22), tmp_path))
    press(page, POWER, "ArrowLeft", 3)
    shows(page, allocated(Settings(bandwidth_mhz=22, power_dbm=20), tmp_path))
    press(page, COHORT, "ArrowRight", 2)
    shows(page, allocated(Settings(bandwidth_mhz=22, power_dbm=20, cohort=12), tmp_path))

    # what can't be: the page says who and why, and lives on
    press(page, BUDGET_LOW, "PageDown")
    press(page, BUDGET_HIGH, "PageDown", 2)
    press(page, BUDGET_HIGH, "ArrowLeft", 3)
    page.wait_for("document.querySelectorAll('.headline.stuck').length === 2")
    assert "budget below the least possible energy" in page.evaluate("document.querySelector('.stuck').innerText")
    assert re.match(r"devices? \d", page.evaluate("document.querySelector('.stuck p').innerText"))
    press(page, BUDGET_HIGH, "PageUp", 4)
    shows(page, allocated(Settings(bandwidth_mhz=22, power_dbm=20, cohort=12, budget_mj=(2, 47)), tmp_path))

    assert page.errors == []
    assert page.requests_elsewhere == []
    page.close()


def test_what_is_taken_along_describes_the_page(browser, address, tmp_path):
    browser.call("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    page = opened(browser, address)
    press(page, BANDWIDTH, "ArrowRight")
    shows(page, allocated(Settings(bandwidth_mhz=22), tmp_path))
    (tmp_path / "my-lab.toml").unlink()
    links = "deep('a').filter((link) => /SVG|TOML/.test(link.innerText))"
    page.wait_for(f"{links}.length === 2")
    page.evaluate(f"{links}.forEach((link) => link.click())")
    for name, said in (("my-lab.toml", 'bandwidth = "22 MHz"'), ("round.svg", "one round under two methods")):
        file, until = tmp_path / name, time.monotonic() + 30
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.1)
        assert said in file.read_text()
    assert page.errors == []
    page.close()


def test_slow_motion_plays(browser, address):
    page = opened(browser, address, width=390)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")       # nothing sticks out on a phone
    page.wait_for("deep('button[role=switch]').length")
    page.evaluate("deep('button[role=switch]')[0].click()")
    inside = "deep('iframe')[0]?.contentDocument"
    page.wait_for(f"{inside}?.getElementById('clock')?.textContent === '0.0 ms'")
    for _ in range(3):
        page.evaluate(f"{inside}.getElementById('next').click()")
    assert "starts to send it on" in page.evaluate(f"{inside}.querySelector('.lane p').textContent")
    page.evaluate(f"{inside}.getElementById('play').click()")
    before = page.evaluate(f"parseFloat({inside}.getElementById('clock').textContent)")
    page.wait_for(f"parseFloat({inside}.getElementById('clock').textContent) > {before} + 5")
    names = page.evaluate(f"[...{inside}.querySelector('svg.bars').querySelectorAll('text')].map((e) => e.textContent)")
    assert {"0", "100", "time in the round (ms)", "device 73"} <= set(names)
    assert "computes" in page.evaluate(f"{inside}.getElementById('legend').innerText")

    # by keyboard, and without motion: from event to event
    page.evaluate(f"{inside}.getElementById('at').focus()")
    page.press("Home")
    page.press("ArrowRight")
    page.wait_for(f"{inside}.querySelector('.lane p').textContent.includes('starts to send it on')")
    first = page.evaluate(f"{inside}.getElementById('clock').textContent")
    page.press("ArrowLeft")
    page.wait_for(f"{inside}.getElementById('clock').textContent === '0.0 ms'")
    page.screen(390, calm=True)
    page.wait_for(f"{inside}.defaultView.matchMedia('(prefers-reduced-motion: reduce)').matches")
    page.evaluate(f"{inside}.getElementById('play').click()")
    page.wait_for(f"{inside}.getElementById('clock').textContent !== '0.0 ms'")
    assert page.evaluate(f"{inside}.getElementById('clock').textContent") == first      # no moment in between
    assert page.errors == []
    assert page.requests_elsewhere == []
    page.close()


@pytest.mark.parametrize(("lesson", "slider"), [
    (1, 1), (11, 0), *(pytest.param(lesson, 0, marks=pytest.mark.extended) for lesson in range(2, 11))])
def test_a_lesson_answers_its_sliders(browser, address, lesson, slider):
    page = opened(browser, f"{address}lesson-{lesson}/")
    page.wait_for("deep('marimo-form').length === 3 && deep('.check').length === 1")
    picture = "deep('svg[role=img]').map((drawing) => drawing.outerHTML).join('')"
    before = page.evaluate(f"window.before = {picture}")
    press(page, slider, "ArrowRight")
    page.wait_for(f"window.before !== {picture}")
    assert before
    for answered in range(3):
        predict(page)
        page.wait_for(f"deep('.reply').length === {answered + 1} && deep('marimo-form').length === {2 - answered}")
    assert page.errors == []
    assert page.requests_elsewhere == []
    page.close()


def predict(page):
    """Take the first choice of the first question that is open, or 9 where it wants a number, and commit to it."""
    form = "(deep('marimo-form')[0].shadowRoot ?? deep('marimo-form')[0])"
    if page.evaluate(f"deep('[role=radio]', {form}).length"):
        page.evaluate(f"deep('[role=radio]', {form})[0].click()")
        page.wait_for(f"deep('[role=radio]', {form})[0].ariaChecked === 'true'")
    else:
        page.evaluate(f"deep('input', {form})[0].focus()")
        page.call("Input.insertText", {"text": "9"})
        page.press("Tab")
    page.click(*page.middle(f"deep('button', {form}).find((button) => button.innerText.includes('prediction'))"))


def test_from_lesson_to_lesson_and_back_to_the_lab(browser, address):
    page = opened(browser, f"{address}lesson-2/")
    page.wait_for("deep('nav.ways').length === 2")
    page.evaluate("deep('nav.ways a[rel=next]')[0].click()")
    page.wait_for(f"location.href === '{address}lesson-3/' && deep('nav.ways a[rel=prev]').length === 2")
    page.evaluate("deep('nav.ways a')[0].click()")
    page.wait_for(f"location.href === '{address}' && deep('[role=slider]').length >= 5")
    assert page.errors == []
    page.close()

"""A class of twenty: one lab server, a page for each student, sliders, predictions, an exercise."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from chromium import Browser, Page, needs_chromium

pytest.importorskip("marimo", reason="no marimo here: the lab is not tried")
pytestmark = [needs_chromium, pytest.mark.extended]

STUDENTS = 20
MOST_BYTES = 1e9           # of the server's memory
READY = "document.querySelectorAll('.headline[data-round-s]').length === 2"
TIMES = "[...document.querySelectorAll('.headline')].map((e) => e.dataset.roundS).join()"
FORMS = "deep('button').filter((each) => each.textContent.includes('That is my prediction'))"


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """The command of a teacher; its process, the address on the board, and the warning."""
    lab = subprocess.Popen(
        [sys.executable, "-m", "netsim", "lab", "--no-browser", "--host", "127.0.0.1", "--seats", str(STUDENTS),
         "--port", "24500"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert lab.stdout
    assert lab.stderr
    address = re.search(r"http://\S+", lab.stdout.readline())
    assert address
    warning = next(line for line in lab.stderr if line.startswith("warning"))
    yield lab, address[0], warning
    lab.terminate()
    lab.wait(20)


def moved(page: Page, thumb: int, key: str) -> None:
    """Press a key on a slider, and wait until the pictures show another round."""
    before = page.evaluate(f"deep('[role=slider]')[{thumb}].focus(), {TIMES}")
    page.press(key)
    page.wait_for(f"{TIMES} !== '{before}'")


def test_a_lesson_with_twenty_students(server: tuple[subprocess.Popen[str], str, str]) -> None:
    lab, address, warning = server
    assert "everyone who knows this address and can reach 127.0.0.1" in warning
    dice = Random(1)
    with Browser() as browser:
        pages = [browser.open(address) for _ in range(STUDENTS)]
        for page in pages:
            page.wait_for(READY)
        assert "The lab is full" in browser.open(address).evaluate("document.body.textContent")
        at_first = pages[0].evaluate(TIMES)
        for page in dice.sample(pages[1:], STUDENTS - 1):              # every student but the first moves a slider
            page.call("Page.bringToFront")
            moved(page, 0, dice.choice(["ArrowRight", "ArrowLeft"]))
        assert pages[0].evaluate(TIMES) == at_first                    # whose page stays as it was
        assert all(not page.errors for page in pages)
        status = Path(f"/proc/{lab.pid}/status").read_text()
        assert 1024 * int(re.search(r"VmHWM:\s+(\d+)", status)[1]) < MOST_BYTES      # type: ignore[index]


def test_a_student_predicts_and_solves(server: tuple[subprocess.Popen[str], str, str]) -> None:
    _, address, _ = server
    with Browser() as browser:
        page = browser.open(f"{address}lesson-1/")
        page.wait_for(f"{FORMS}.length === 3")
        page.evaluate(f"{FORMS}.forEach((each) => each.click()), 0")
        page.wait_for("deep('*').filter((e) => !e.children.length && e.textContent === 'Choose first.').length === 2")
        page.wait_for("deep('*').some((e) => !e.children.length && e.textContent === 'Enter a number first.')")
        page.evaluate("deep('input[type=text]')[0].focus(), 0")
        for letter in "1,9":
            page.call("Input.insertText", {"text": letter})
        page.evaluate("deep('input[type=text]')[0].blur(), 0")
        page.wait_for(f"{FORMS}[0].click(), document.querySelectorAll('.reply').length === 1")
        assert "You said “1.9 times”" in page.evaluate("document.querySelector('.reply').textContent")
        assert "Not yet." in page.evaluate("document.querySelector('.check').textContent")
        assert page.evaluate("deep('[aria-label], [title]').every((e) => !/[<>]/.test(e.ariaLabel + e.title))")
        assert not page.errors

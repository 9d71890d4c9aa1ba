"""Milliseconds from a slider to the pictures it redraws, in headless Chromium: python benchmarks/lab.py [STEPS].

Opens `netsim lab` as it stands (100 devices, a cohort of 10) and presses the arrow keys on every slider. Time runs in
the page itself, from the key press to the frame after the one in which the pictures show another round time, so that
what is counted has been painted. A step that leaves the round time as it was does not count.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from chromium import Browser, Page

SLIDERS = ("bandwidth", "power", "budget, low end", "budget, high end", "model size", "CPU, low end", "CPU, high end")
THUMBS = (0, 1, 2, 3, 5, 6, 7)     # of all thumbs on the page; number 4 is the cohort's, which stays at 10
GOAL_MS = 200.0
SETTLE_S = 0.6                     # the page's own upkeep, before the next step
STEP = """new Promise((done) => {
    const times = () => [...document.querySelectorAll('.headline')].map((e) => e.dataset.roundS).join();
    const thumb = deep('[role=slider]')[%d], before = times();
    let began = 0;
    const seen = new MutationObserver(() => {
        if (times() === before) return;
        seen.disconnect();
        requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began)));
    });
    seen.observe(document.body, {subtree: true, childList: true, attributes: true, characterData: true});
    thumb.focus();
    addEventListener('keydown', () => { began = performance.now(); }, {once: true, capture: true});
    setTimeout(() => { seen.disconnect(); done(null); }, 3000);
})"""


def main(steps: int) -> None:
    """Every slider a few steps to the right and back."""
    server = subprocess.Popen([sys.executable, "-u", "-m", "netsim", "lab", "--no-browser", "--port", "21500"],
                              stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = re.search(r"http://\S+", server.stdout.readline())
        assert address is not None
        with Browser() as browser:
            page = browser.open(address[0])
            page.wait_for("document.querySelectorAll('.headline[data-round-s]').length === 2")
            time.sleep(3)
            measure(page, 0, "ArrowRight")    # the first one warms everything up
            measure(page, 0, "ArrowLeft")
            taken = {name: [measure(page, thumb, key) for key in ("ArrowRight", "ArrowLeft") for _ in range(steps)]
                     for name, thumb in zip(SLIDERS, THUMBS, strict=True)}
            errors = page.errors
    finally:
        server.terminate()
        server.wait()
    for name, found in taken.items():
        report(name, [step for step in found if step is not None])
    everything = [step for found in taken.values() for step in found if step is not None]
    report("all", everything)
    within = sum(step <= GOAL_MS for step in everything)
    print(f"{within} of {len(everything)} steps within {GOAL_MS:g} ms; errors on the page: {len(errors)}")


def measure(page: Page, thumb: int, key: str) -> float | None:
    """One press of a key on one slider; None if the round time stays the same."""
    page.evaluate(f"window.step = {STEP % thumb}, 1")
    page.press(key)
    taken = page.evaluate("window.step")
    time.sleep(SETTLE_S)
    return None if taken is None else float(taken)


def report(name: str, found: list[float]) -> None:
    """One line of the table."""
    if found:
        print(f"{name:18} median {statistics.median(found):4.0f} ms, longest {max(found):4.0f} ms, {len(found)} steps")
    else:
        print(f"{name:18} never changes the round time here")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)

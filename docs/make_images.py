"""Draw the pictures of the documentation with the program itself: `make images`, where there is a Chromium."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import polars as pl

from netsim import load_scenario, simulate

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))      # the browser client lives with the tests


def timeline() -> None:
    """A round under equal shares, in which one device holds up the others."""
    run = simulate(load_scenario("lab", ["allocation.method=equal"]), seed=4)
    waited = run.breakdown().rounds.sort(pl.col("wait_s") / pl.col("round_s"), descending=True)
    run.figure("gantt", round=int(waited["round"][0])).savefig(HERE / "images" / "gantt.png", dpi=160)


def lab() -> None:
    """The teaching page as it opens."""
    from chromium import Browser

    command = [sys.executable, "-m", "netsim", "lab", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split()[2]
        with Browser() as browser:
            page = browser.open(address, 1280, 1240)
            page.wait_for("document.querySelectorAll('.headline').length === 2")
            time.sleep(2)                                       # fonts
            page.screenshot(HERE / "images" / "lab.png")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    (HERE / "images").mkdir(exist_ok=True)
    timeline()
    lab()

"""What a sweep over five allocation methods costs beside one method alone, where all of them train the same.

    python benchmarks/sweep.py [ROUNDS]

CPU seconds of the cells in one process, start-up left out, in turns, the best of three; and whether the traces of the
five are those of runs that share nothing.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from netsim import simulate
from netsim.executors.factory import ExecutorFactory
from netsim.executors.workers import InProcess
from netsim.sweep.sweep import run_all, table
from netsim.sweep.sweep_file import load_sweep

METHODS = ("sao", "fedl", "sao-common-power", "sao-joint", "tdma")      # none of them loses a device here
CASES = {"quickstart as it is": "", "with 4 times the local work": "learning.local_iterations = 20\n"}
GOAL = 1.3
TURNS = 3


def main(rounds: int) -> None:
    """A line a case."""
    print(f"{rounds} rounds, CPU seconds        one method   {len(METHODS)} methods   ratio (goal: at most {GOAL})")
    for name, more in CASES.items():
        play(METHODS[:1], 1, more)      # what is imported and decoded once
        spent = [[play(METHODS[:count], rounds, more) for count in (1, len(METHODS))] for _ in range(TURNS)]
        one, five = (min(seconds) for seconds in zip(*spent, strict=True))
        print(f"{name:30s} {one:10.2f} {five:11.2f} {five / one:7.2f}", flush=True)
    print(f"traces as those of runs alone: {'yes' if as_alone() else 'NO'}")


def play(methods: tuple[str, ...], rounds: int, more: str = "", check: bool = False) -> float:
    """Run a sweep in a folder of its own; returns the CPU time of its cells."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "methods.toml"
        file.write_text(f'scenario = "quickstart"\n[set]\nend.rounds = {rounds}\nselection.method = "fedavg"\n{more}'
                        f"[grid]\nallocation.method = {list(methods)!r}\n")
        sweep = load_sweep(file, Path(folder))
        start = time.process_time()
        run_all(sweep, ExecutorFactory(InProcess, at_once=1))
        seconds = time.process_time() - start
        if check:
            alone = [simulate(scenario, workers=1).summary["trace_sha256"] for _, scenario in sweep.cases]
            assert table(sweep)["trace_sha256"].to_list() == alone
    return seconds


def as_alone() -> bool:
    """Whether sharing has changed nothing."""
    try:
        play(METHODS, 3, check=True)
    except AssertionError:
        return False
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 12)

"""The same Flower app in `netsim flower` and in Flower's engine, in turns: python benchmarks/flower.py [--before DIR].

The app is examples/flower-digits with ten nodes, two workers each; the cell is that of the scenario quickstart. Each
contender is a process of its own, started anew for every measurement: once with many rounds, whose pace is read off the
lines that it prints about them, and once with few, from its start to its end. ``--before DIR`` measures the netsim of
another checkout (with its own DIR/.venv) in place of Flower's engine, in CPU seconds too.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

APP = Path(__file__).parent.parent / "examples" / "flower-digits"
NODES, WORKERS, FEW, MANY = 10, 2, 2, 40
Command = Callable[[int, str], list[str]]                  # rounds and folder to a command line
ROUND = re.compile(r"round (\d+)/\d+", re.IGNORECASE)      # in the lines of both

ENGINE = """
import sys
import tomllib
from pathlib import Path

from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation

from digits.client_app import app as client
from digits.server_app import app as server

config = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
config["num-server-rounds"] = int(sys.argv[1])


class ConfiguredClient(ClientApp):
    # the engine gives a configuration only to apps that are run by its command line, and wants it back as it was
    def __call__(self, message, context):
        given, context.run_config = context.run_config, config
        try:
            return client(message, context)
        finally:
            context.run_config = given


class ConfiguredServer(ServerApp):
    def __call__(self, grid, context):
        context.run_config = config
        server(grid, context)


run_simulation(ConfiguredServer(), ConfiguredClient(), int(sys.argv[2]), backend_config={
    "client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": int(sys.argv[3])}})
"""


@dataclass(frozen=True)
class Measured:
    """One process of a contender."""

    round_s: float          # between the first and the last round that it prints
    whole_s: float          # from its start to its end
    cpu_s: float            # of the process and the children that it waited for


def main() -> None:
    """Measure both in turns and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("turns", nargs="?", type=int, default=5, help="how often each is measured")
    parser.add_argument("--before", metavar="DIR", type=Path, help="another checkout, with a .venv of its own")
    given = parser.parse_args()
    ours = partial(by_netsim, sys.executable)
    if given.before:
        before = partial(by_netsim, str(given.before.absolute() / ".venv" / "bin" / "python"))
        compare("before", before, ours, given.turns)
        return
    if find_spec("flwr") is None or find_spec("ray") is None:
        sys.exit("Flower's engine is not installed: pip install 'flwr[simulation]' (extra: bench)")
    compare("Flower's engine", by_engine, ours, given.turns)


def compare(other: str, by_other: Command, ours: Command, turns: int) -> None:
    """Measure both in turns and print the ratios."""
    many: dict[str, list[Measured]] = {other: [], "netsim": []}
    few: dict[str, list[Measured]] = {other: [], "netsim": []}
    for _ in range(turns):
        for who, command in ((other, by_other), ("netsim", ours)):
            with TemporaryDirectory(prefix="netsim-bench-") as folder:
                many[who].append(measured(command(MANY, f"{folder}/many")))
                few[who].append(measured(command(FEW, f"{folder}/few")))
    peer = other != "before"        # the engine's CPU time is not known: ray starts processes that it does not wait for
    report("a round after start-up", many, "round_s", goal=1.0)
    report(f"{FEW} rounds from start to end", few, "whole_s", goal=3.0 if peer else 1.0)
    if not peer:
        report(f"{FEW} rounds, CPU", few, "cpu_s", goal=1.0)
        report(f"{MANY} rounds, CPU", many, "cpu_s", goal=1.0)


def report(what: str, runs: dict[str, list[Measured]], figure: str, goal: float) -> None:
    """One line: medians, their ratio, and the ratio of the fastest."""
    (other, theirs), (_, ours) = ((who, [getattr(run, figure) for run in several]) for who, several in runs.items())
    print(f"{what}: {other} {statistics.median(theirs):.3f} s, netsim {statistics.median(ours):.3f} s: "
          f"{statistics.median(theirs) / statistics.median(ours):.2f} x its speed (goal: {goal:g}); "
          f"best {min(theirs):.3f} s and {min(ours):.3f} s: {min(theirs) / min(ours):.2f} x")


def by_netsim(python: str, rounds: int, out: str) -> list[str]:
    """`netsim flower`."""
    return [python, "-m", "netsim", "flower", str(APP), "--scenario", "quickstart", "--out", out,
            "--set", f"population.phone.count={NODES}", "--set", f"selection.cohort={NODES // 2}",
            "--workers", str(WORKERS), "--run-config", f"num-server-rounds={rounds}", "--json"]


def by_engine(rounds: int, out: str) -> list[str]:
    """Flower's simulation engine."""
    return [sys.executable, "-c", ENGINE, str(rounds), str(NODES), str(WORKERS)]


def measured(command: list[str]) -> Measured:
    """Run a contender and read its rounds off its lines."""
    env = {**os.environ, "PYTHONPATH": str(APP), "FLWR_TELEMETRY_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    began, before, told, lines = time.perf_counter(), children_cpu_s(), dict[int, float](), list[str]()
    with subprocess.Popen(
            command, cwd=APP, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
        assert run.stdout is not None
        for line in run.stdout:
            lines.append(line)
            found = ROUND.search(line)
            if found:
                told.setdefault(int(found[1]), time.perf_counter())
    if run.returncode or len(told) < 2:
        sys.exit(f"{command[:4]} failed:\n{''.join(lines[-20:])}")
    first, last = min(told), max(told)
    pace = (told[last] - told[first]) / (last - first)
    return Measured(pace, time.perf_counter() - began, children_cpu_s() - before)


def children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()

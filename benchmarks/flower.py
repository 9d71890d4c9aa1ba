"""The same Flower app in `netsim flower` and in Flower's own engine, taking turns: python benchmarks/flower.py.

The app is examples/flower-digits with ten nodes, two workers each; the cell is that of the scenario quickstart. Each
contender is a process of its own, started anew for every measurement: once with many rounds, whose pace is read off the
lines that it prints about them, and once with few, from its start to its end.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

APP = Path(__file__).parent.parent / "examples" / "flower-digits"
NODES, WORKERS, FEW, MANY = 10, 2, 2, 40
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


def main() -> None:
    """Measure both in turns and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("turns", nargs="?", type=int, default=5, help="how often each is measured")
    turns = parser.parse_args().turns
    if find_spec("flwr") is None or find_spec("ray") is None:
        sys.exit("Flower's engine is not installed: pip install 'flwr[simulation]' (extra: bench)")
    pace: dict[str, list[float]] = {"Flower": [], "netsim": []}
    whole: dict[str, list[float]] = {"Flower": [], "netsim": []}
    for _ in range(turns):
        for who, command in (("Flower", by_engine), ("netsim", by_netsim)):
            with TemporaryDirectory(prefix="netsim-bench-") as folder:
                pace[who].append(timed(command(MANY, f"{folder}/many"))[0])
                whole[who].append(timed(command(FEW, f"{folder}/few"))[1])
    report("a round after start-up", pace, goal=1.0)
    report(f"{FEW} rounds from start to end", whole, goal=3.0)


def report(what: str, seconds: dict[str, list[float]], goal: float) -> None:
    theirs, ours = (statistics.median(seconds[who]) for who in ("Flower", "netsim"))
    print(f"{what}: Flower's engine {theirs:.3f} s, netsim {ours:.3f} s: {theirs / ours:.2f} x its speed "
          f"(goal: {goal:g})")


def by_netsim(rounds: int, out: str) -> list[str]:
    """`netsim flower`."""
    return [sys.executable, "-m", "netsim", "flower", str(APP), "--scenario", "quickstart", "--out", out,
            "--set", f"population.phone.count={NODES}", "--set", f"selection.cohort={NODES // 2}",
            "--workers", str(WORKERS), "--run-config", f"num-server-rounds={rounds}", "--json"]


def by_engine(rounds: int, out: str) -> list[str]:
    """Flower's simulation engine."""
    return [sys.executable, "-c", ENGINE, str(rounds), str(NODES), str(WORKERS)]


def timed(command: list[str]) -> tuple[float, float]:
    """Seconds a round, between the first and the last that is told of; and from start to end."""
    env = {**os.environ, "PYTHONPATH": str(APP), "FLWR_TELEMETRY_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    began, told, lines = time.perf_counter(), dict[int, float](), list[str]()
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=APP, env=env, text=True, **both) as run:
        assert run.stdout is not None
        for line in run.stdout:
            lines.append(line)
            found = ROUND.search(line)
            if found:
                told.setdefault(int(found[1]), time.perf_counter())
    if run.returncode or len(told) < 2:
        sys.exit(f"{command[:4]} failed:\n{''.join(lines[-20:])}")
    first, last = min(told), max(told)
    return (told[last] - told[first]) / (last - first), time.perf_counter() - began


if __name__ == "__main__":
    main()

"""The same Flower app in `netsim flower` and in Flower's own engine, taking turns: python benchmarks/flower.py.

The app is examples/flower-digits with ten nodes, two workers each; the cell is that of the scenario quickstart. Each
contender is a process of its own, started anew for every measurement, with few rounds and with many: the difference
is what rounds cost after start-up, and the few with all that comes before are what one waits for at first.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

APP = Path(__file__).parent.parent / "examples" / "flower-digits"
NODES, WORKERS, FEW, MANY = 10, 2, 2, 22

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
    seconds: dict[str, list[float]] = {"netsim": [], "Flower": []}
    first: dict[str, list[float]] = {"netsim": [], "Flower": []}
    for _ in range(turns):
        for who, run in (("Flower", by_engine), ("netsim", by_netsim)):
            few, many = run(FEW), run(MANY)
            first[who].append(few)
            seconds[who].append((many - few) / (MANY - FEW))
    report(f"a round, of {MANY - FEW}", seconds, goal=1.0)
    report(f"{FEW} rounds with all that comes before", first, goal=3.0)


def report(what: str, seconds: dict[str, list[float]], goal: float) -> None:
    theirs, ours = (statistics.median(seconds[who]) for who in ("Flower", "netsim"))
    print(f"{what}: Flower's engine {theirs:.3f} s, netsim {ours:.3f} s: {theirs / ours:.2f} x its speed "
          f"(goal: {goal:g})")


def by_netsim(rounds: int) -> float:
    """Seconds that `netsim flower` takes."""
    with TemporaryDirectory(prefix="netsim-bench-") as folder:
        return timed([
            sys.executable, "-m", "netsim", "flower", str(APP), "--scenario", "quickstart", "--out", f"{folder}/run",
            "--set", f"population.phone.count={NODES}", "--set", f"selection.cohort={NODES // 2}", "--workers",
            str(WORKERS), "--run-config", f"num-server-rounds={rounds}", "--json"])


def by_engine(rounds: int) -> float:
    """Seconds that Flower's simulation engine takes."""
    return timed([sys.executable, "-c", ENGINE, str(rounds), str(NODES), str(WORKERS)])


def timed(command: list[str]) -> float:
    env = {**os.environ, "PYTHONPATH": str(APP), "FLWR_TELEMETRY_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    began = time.perf_counter()
    done = subprocess.run(command, cwd=APP, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command[:4]} failed:\n{done.stderr[-2000:]}")
    return time.perf_counter() - began


if __name__ == "__main__":
    main()

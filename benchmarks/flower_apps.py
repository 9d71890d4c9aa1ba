"""Flower's own apps in Flower's engine and in `netsim flower`: python benchmarks/flower_apps.py CHECKOUT.

CHECKOUT is a folder with Flower's repository. Every app in it (a pyproject.toml with a ServerApp and a ClientApp) is
copied, run with few rounds in both engines, and compared. Downloads are replaced by local stand-ins
(benchmarks/flower_stand_ins.py). An app counts if Flower's engine runs it here; packages that it needs and that are not
installed are named in the table.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

ROUNDS, NODES, LIMIT_S = 2, 10, 400
MOST_NODES = 40            # of those that a README asks for
SPECIAL: dict[str, dict[str, object]] = {"vertical-fl": {"num-server-rounds": 5}}
SET_ROUNDS = ("num-server-rounds", "num_server_rounds", "num-rounds", "algorithm.num-server-rounds")
ROUND = re.compile(r"(?:\[ROUND (\d+)|Starting round (\d+)|ServerApp Round (\d+)|\[Round (\d+)/)", re.IGNORECASE)
METRICS = re.compile(r"MetricRecord: (\{.*\})")
NUMBER = re.compile(r"'([\w .-]+)': '?(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)")
LOGGED = re.compile(r"(accuracy|loss|auc|f1)\w*\W{1,4}(\d+\.\d+(?:e[-+]?\d+)?)", re.IGNORECASE)

ENGINE = """
import json, sys
from pkgutil import resolve_name
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation

what = json.loads(sys.argv[1])
client, server, config = resolve_name(what["clientapp"]), resolve_name(what["serverapp"]), what["config"]


class ConfiguredClient(ClientApp):
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


run_simulation(ConfiguredServer(), ConfiguredClient(), what["nodes"], backend_config={
    "client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 2}})
"""


@dataclass
class Outcome:
    """One app in one engine."""

    code: int
    cpu_s: float
    text: str
    rounds: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    summary: dict[str, object] = field(default_factory=dict)


@dataclass
class Row:
    """One app: the line of the table."""

    app: str
    flower: bool
    netsim: bool
    rounds: str = ""
    metrics: str = ""
    trained: str = ""
    ratio: float | None = None
    reason: str = ""


def main() -> None:
    """Run the apps, print the table, and end with exit code 1 if fewer than 95 % of Flower's run in netsim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="folder with Flower's repository")
    parser.add_argument("--only", nargs="*", default=[], help="names of apps (folders)")
    parser.add_argument("--logs", type=Path, help="folder for the output of every run")
    parser.add_argument("--json", type=Path, help="file of results; apps in it are not run again")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)        # orphaned processes become children, so that their CPU time counts
    known = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    with TemporaryDirectory(prefix="netsim-apps-") as folder:
        for app in apps_in(options.checkout):
            name = app.name
            if (options.only and name not in options.only) or (not options.only and name in known):
                continue
            known[name] = asdict(row_of(app, Path(folder), options.logs))
            print(line_of(Row(**known[name])), file=sys.stderr, flush=True)
            if options.json:
                options.json.write_text(json.dumps(known, indent=1))
    print_table([Row(**known[name]) for name in sorted(known)])


def apps_in(checkout: Path) -> list[Path]:
    """Return the folders of all apps."""
    files = [file for part in ("examples", "baselines") for file in sorted((checkout / part).glob("*/pyproject.toml"))]
    return [file.parent for file in files if "components" in app_table(file)]


def app_table(file: Path) -> dict[str, object]:
    found: dict[str, object] = tomllib.loads(file.read_text()).get("tool", {}).get("flwr", {}).get("app", {})
    return found


def row_of(app: Path, folder: Path, logs: Path | None) -> Row:
    """Run an app in both engines."""
    copy = folder / app.name
    shutil.copytree(app, copy, dirs_exist_ok=True)
    stand_ins = folder / "stand-ins"
    stand_ins.mkdir(exist_ok=True)
    shutil.copy(Path(__file__).with_name("flower_stand_ins.py"), stand_ins / "sitecustomize.py")
    changes, nodes = SPECIAL.get(app.name, {}), nodes_of(copy)
    table = app_table(copy / "pyproject.toml")
    config = flat(table.get("config", {}))
    changes = {**{name: ROUNDS for name in SET_ROUNDS if name in config}, **changes}
    what = {**table["components"], "config": {**config, **changes}, "nodes": nodes}      # type: ignore[dict-item]
    theirs = timed([sys.executable, "-c", ENGINE, json.dumps(what)], copy, stand_ins)
    run = folder / f"run-{app.name}"
    ours = timed([
        sys.executable, "-m", "netsim", "flower", str(copy), "--federation-config", f"num-supernodes={nodes}",
        "--workers", "2", "--verbose", "--json", "--out", str(run),
        *(word for name, value in changes.items() for word in ("--run-config", f"{name}={value}"))], copy, stand_ins)
    shutil.rmtree(run, ignore_errors=True)
    if logs:
        logs.mkdir(exist_ok=True)
        for engine, found in (("flower", theirs), ("netsim", ours)):
            (logs / f"{app.name}-{engine}.txt").write_text(found.text)
    return compared(app.name, theirs, ours)


def nodes_of(app: Path) -> int:
    """Return the number of nodes that an app's README or pyproject.toml asks for."""
    texts = [file.read_text() for file in (app / "README.md", app / "pyproject.toml") if file.exists()]
    found = [int(number) for text in texts for number in re.findall(r"num-supernodes\s*=\s*(\d+)", text)]
    return min([*found[:1], MOST_NODES]) if found else NODES


def flat(table: object, before: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in table.items() if isinstance(table, dict) else ():
        found |= flat(value, f"{before}{name}.") if isinstance(value, dict) else {f"{before}{name}": value}
    return found


def timed(command: list[str], folder: Path, stand_ins: Path) -> Outcome:
    """Run a command; return its exit code, its output, and the CPU seconds of all its processes."""
    path = ":".join([str(folder), str(stand_ins), os.environ.get("PYTHONPATH", "")]).rstrip(":")
    env = {**os.environ, "PYTHONPATH": path, "FLOWER_STAND_INS": str(stand_ins / "data"),
           "FLWR_TELEMETRY_ENABLED": "0", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1",
           "WANDB_MODE": "disabled", "RAY_DEDUP_LOGS": "0", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONHASHSEED": "0"}
    (stand_ins / "data").mkdir(exist_ok=True)
    before = cpu_s()
    process = subprocess.Popen(command, cwd=folder, env=env, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, errors="replace", start_new_session=True)
    try:
        text, _ = process.communicate(timeout=LIMIT_S)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        text, code = f"no end after {LIMIT_S} s", -9
        process.wait()
    reap()
    return read(Outcome(code, cpu_s() - before, text))


def reap() -> None:
    """End and wait for processes that a run has left behind."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not ended:
            time.sleep(0.1)


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def read(found: Outcome) -> Outcome:
    """Read rounds and the last metrics from the log, and the summary of netsim."""
    for line in found.text.splitlines():
        if line.startswith("{") and '"run_dir"' in line:
            found.summary = json.loads(line)
            continue
        if match := ROUND.search(line):
            found.rounds = max(found.rounds, *(int(number) for number in match.groups() if number))
        if match := METRICS.search(line):
            found.metrics |= {name: float(value) for name, value in NUMBER.findall(match[1])}
        elif "INFO" in line:
            found.metrics |= {name.lower(): float(value) for name, value in LOGGED.findall(line)}
    return found


def compared(name: str, theirs: Outcome, ours: Outcome) -> Row:
    """Return the line of an app."""
    runs_there = theirs.code == 0 and "Traceback" not in theirs.text.replace("RayTaskError", "")
    row = Row(name, runs_there, ours.code == 0)
    if not (row.flower and row.netsim):
        row.reason = why(ours if row.flower else theirs)
    if row.netsim:
        sent = ours.summary["messages"].get("train")      # type: ignore[attr-defined]
        row.trained = f"{sent['answered']} of {sent['sent']}" if sent else "queries"
    if row.flower and row.netsim:
        row.rounds = f"{theirs.rounds or '?'} / {ours.rounds or '?'} / {ours.summary['rounds']}"
        row.ratio = ours.cpu_s / theirs.cpu_s
        row.metrics = agreement(theirs.metrics, ours.metrics)
    return row


def agreement(theirs: dict[str, float], ours: dict[str, float]) -> str:
    """Return the largest difference of a metric, relative to its size or to 1 for shares."""
    both = sorted(theirs.keys() & ours.keys())
    if not both:
        return "none logged"
    worst = max(both, key=lambda name: difference(theirs[name], ours[name]))
    return f"{worst}: {theirs[worst]:.4g} / {ours[worst]:.4g}"


def difference(one: float, other: float) -> float:
    return abs(one - other) / max(1.0, abs(one), abs(other))


def why(found: Outcome) -> str:
    """Return the last line of an output that looks like an error."""
    lines = [line.strip() for line in found.text.splitlines() if re.search(
        r"\b\w*(?:Error|Exception)\b: |^error: |No module named|no stand-in|no end after", line)]
    missing = [line for line in lines if "No module named" in line or "no stand-in" in line]
    text = (missing or lines or ["no message"])[-1]
    return re.sub(r"\x1b\[[\d;]*m|/\S+/", "", text)[:150]


def line_of(row: Row) -> str:
    yes = {True: "yes", False: "no"}
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return (f"| {row.app} | {yes[row.flower]} | {yes[row.netsim]} | {row.rounds} | {row.trained} | {row.metrics} | "
            f"{ratio} | {row.reason.replace('|', '/')} |")


def print_table(rows: list[Row]) -> None:
    counted = [row for row in rows if row.flower]
    run = [row for row in counted if row.netsim]
    print(f"flwr {version('flwr')}, ray {version('ray')}, torch {version('torch')}, {time.strftime('%Y-%m-%d')}\n")
    print("| app | Flower | netsim | rounds (Flower / netsim's log / trace) | clients trained | "
          "metric that differs most (Flower / netsim) | CPU, netsim : Flower | reason |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(line_of(row))
    print(f"\n{len(run)} of the {len(counted)} apps that Flower's engine runs here run in netsim")
    if len(run) < 0.95 * len(counted):
        sys.exit(1)


if __name__ == "__main__":
    main()

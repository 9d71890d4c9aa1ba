"""Flower's own apps in Flower's engine and in `netsim flower`: python benchmarks/flower_apps.py CHECKOUT.

CHECKOUT is a folder with Flower's repository. Every app in it (a pyproject.toml with a ServerApp and a ClientApp) is
copied, run with few rounds in both engines, and compared. Downloads are replaced by local stand-ins
(benchmarks/flower_stand_ins.py). Both engines use the same seeds for each client and message
(benchmarks/flower_engine.py), so that the replies of all clients can be compared one by one; where they differ,
Flower's engine runs again to show how far its own runs lie apart. An app counts if Flower's engine runs it here;
packages that it needs and that are not installed are named in the table. Several processes can share the work by
--only and one --json.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from flower_files import prepare

ROUNDS, NODES, LIMIT_S = 2, 10, 600
MOST_NODES = 20            # of those that a README asks for
MORE_RUNS = 2              # of Flower's engine if replies differ
PATIENCE_S = 90            # for processes that a run leaves behind
SAME = 1e-4                # relative difference of numbers that are called the same
# by app: changes of its configuration, and of the number of nodes
SPECIAL: dict[str, dict[str, object]] = {
    "vertical-fl": {"num-server-rounds": 5},
    # its demonstration has a client sleep beyond a timeout of 15 s, in which Flower's engine may not have started
    "flower-secure-aggregation": {"is-demo": False},
    "fedprox": {"algorithm.min-available-clients": 20, "algorithm.num-clients": 20, "algorithm.fraction-fit": 0.25,
                "algorithm.local-epochs": 2},
    "quickstart-jax": {"batch-size": 16, "nodes": 5},      # full batches in each half of a client's test data
    "floco": {"nodes": 2},            # 500 samples for each node
    "fedbn": {"nodes": 5}, "statavg": {"nodes": 5}, "e2e-pandas": {"nodes": 2},
    "e2e-tensorflow": {"nodes": 2},      # each trains MobileNetV2 on all data
}
LANGUAGE_MODEL = "needs a GPU and a language model of several GB"
NOT_RUN = {
    "flowertune-llm": LANGUAGE_MODEL, "flowertune-llm-code": LANGUAGE_MODEL, "flowertune-llm-finance": LANGUAGE_MODEL,
    "flowertune-llm-general-nlp": LANGUAGE_MODEL, "flowertune-llm-medical": LANGUAGE_MODEL,
    "fedrag": "needs corpora of several GB and a language model",
    "whisper-federated-finetuning": "needs the weights of Whisper and a dataset of speech",
    "quickstart-lerobot": "needs the robotics package lerobot from its repository, and its dataset of videos",
    "embedded-devices": "not for the simulation engine: node-config has a folder on the device",
    "supernode-authentication": "not for the simulation engine: node-config has a folder on the device",
}
SET_ROUNDS = ("num-server-rounds", "num_server_rounds", "num-rounds", "algorithm.num-server-rounds")
ROUND = re.compile(r"(?:\[ROUND (\d+)|Starting round (\d+)|ServerApp Round (\d+)|\[Round (\d+)/)", re.IGNORECASE)
MARKS = ("<!-- begin: table of benchmarks/flower_apps.py -->", "<!-- end: table of benchmarks/flower_apps.py -->")
Answers = dict[int, list[dict[str, Any]]]      # by node, in the order of its messages


@dataclass
class Outcome:
    """One app in one engine."""

    code: int
    cpu_s: float
    text: str
    answers: Answers
    rounds: int = 0
    summary: dict[str, Any] = field(default_factory=dict)

    def valid(self, kind: str) -> int:
        """Return the number of messages of a type with a valid reply."""
        return sum("error" not in answer and answer["type"].partition(".")[0] == kind
                   for some in self.answers.values() for answer in some)


@dataclass
class Row:
    """One app: the line of the table."""

    app: str
    flwr: str = ""
    flower: bool = False
    netsim: bool = False
    complete: bool = False           # same rounds, and all trainings counted
    rounds: str = ""
    trained: str = ""
    verdict: str = ""
    ratio: float | None = None
    reason: str = ""


def main() -> None:
    """Run the apps, print the table, and end with exit code 1 if fewer than 95 % of Flower's run in netsim."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="folder with Flower's repository")
    parser.add_argument("--only", nargs="*", default=[], help="names of apps (folders)")
    parser.add_argument("--logs", type=Path, help="folder for the output of every run")
    parser.add_argument("--json", type=Path, help="file of results; apps in it are not run again, unless by --only")
    parser.add_argument("--markdown", type=Path, help="page whose table is replaced; with --json and all apps in it, "
                        "nothing is run")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)        # orphaned processes become children, so that their CPU time counts
    known = stored(options.json)
    apps = {app.name: app for app in apps_in(options.checkout)}
    for name in [name for name in apps if name in options.only or (not options.only and name not in known)]:
        row = row_of(apps[name], options.logs)
        print(line_of(row), file=sys.stderr, flush=True)
        known = {**(stored(options.json) or known), name: asdict(row)}
        if options.json:
            options.json.write_text(json.dumps(known, indent=1))
    rows = [Row(**known[name]) for name in apps if name in known]
    print(table_of(rows))
    if options.markdown:
        page = options.markdown.read_text()
        before, after = page.partition(MARKS[0])[0], page.partition(MARKS[1])[2]
        options.markdown.write_text(f"{before}{MARKS[0]}\n{table_of(rows)}\n{MARKS[1]}{after}")
    counted = [row for row in rows if row.flower]
    sys.exit(sum(row.complete for row in counted) < 0.95 * len(counted))


def stored(file: Path | None) -> dict[str, dict[str, Any]]:
    """Return the results in a file, by app."""
    found: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file and file.exists() else {}
    return found


def apps_in(checkout: Path) -> list[Path]:
    """Return the folders of all apps."""
    files = [file for part in ("examples", "baselines", "framework/e2e")
             for file in sorted((checkout / part).rglob("pyproject.toml"))]
    return [file.parent for file in files if all(app_table(file).get("components", {"": ""}).values())]


def app_table(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(file.read_text()).get("tool", {}).get("flwr", {}).get("app", {})
    return found


def row_of(app: Path, logs: Path | None) -> Row:
    """Run an app in both engines."""
    if app.name in NOT_RUN:
        return Row(app.name, version("flwr"), reason=NOT_RUN[app.name])
    with TemporaryDirectory(prefix="netsim-apps-") as temporary:
        folder = Path(temporary)
        stand_ins = folder / "stand-ins"
        stand_ins.mkdir()
        shutil.copy(Path(__file__).with_name("flower_stand_ins.py"), stand_ins / "sitecustomize.py")
        copy = folder / app.name
        shutil.copytree(app, copy)
        prepare(app.name, copy)
        theirs, ours = commands(copy, folder / "run")
        first = timed(theirs, copy, stand_ins)
        found = timed(ours, copy, stand_ins)
        outcomes = {"flower": first, "netsim": found}
        if first.code == found.code == 0 and largest_difference(first.answers, found.answers)[0] > SAME:
            outcomes |= {f"flower-{number}": timed(theirs, copy, stand_ins) for number in range(2, 2 + MORE_RUNS)}
    if logs:
        logs.mkdir(exist_ok=True)
        for engine, outcome in outcomes.items():
            (logs / f"{app.name}-{engine}.txt").write_text(outcome.text)
            (logs / f"{app.name}-{engine}.json").write_text(json.dumps(outcome.answers))
    return compared(app.name, first, found, [outcome for name, outcome in outcomes.items() if name[-1].isdigit()])


def commands(app: Path, run: Path) -> tuple[list[str], list[str]]:
    """Return the commands that run an app in Flower's engine and in netsim."""
    table = app_table(app / "pyproject.toml")
    config = flat(table.get("config", {}))
    changes = {**{name: ROUNDS for name in SET_ROUNDS if name in config}, **SPECIAL.get(app.name, {})}
    nodes = changes.pop("nodes", nodes_of(app))
    what = {**table["components"], "config": {**config, **changes}, "nodes": nodes}
    pairs = [word for name, value in changes.items() for word in ("--run-config", f"{name}={json.dumps(value)}")]
    return ([sys.executable, str(Path(__file__).with_name("flower_engine.py").resolve()), json.dumps(what)],
            [sys.executable, "-m", "netsim", "flower", str(app), "--federation-config", f"num-supernodes={nodes}",
             "--workers", "2", "--verbose", "--json", "--out", str(run), *pairs])


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
    """Run a command; return its exit code, its output, its replies, and the CPU seconds of all its processes."""
    path = ":".join([str(folder), str(stand_ins), os.environ.get("PYTHONPATH", "")]).rstrip(":")
    answers = stand_ins / "answers"
    shutil.rmtree(answers, ignore_errors=True)
    for made in (answers, stand_ins / "data"):
        made.mkdir(exist_ok=True)
    env = {**os.environ, "PYTHONPATH": path, "FLOWER_STAND_INS": str(stand_ins / "data"),
           "FLOWER_ANSWERS": str(answers), "FLWR_TELEMETRY_ENABLED": "0", "OMP_NUM_THREADS": "1",
           "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "WANDB_MODE": "disabled", "RAY_DEDUP_LOGS": "0",
           "TF_CPP_MIN_LOG_LEVEL": "3", "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1",
           "PYTHONHASHSEED": "0"}
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
    return read(Outcome(code, cpu_s() - before, text, read_answers(answers)))


def reap() -> None:
    """Wait for processes that a run has left behind, so that their CPU time counts; end those that stay."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not ended:
            if time.monotonic() > until:
                for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
                    os.kill(int(child), signal.SIGKILL)
            time.sleep(0.1)


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def read_answers(folder: Path) -> Answers:
    """Return the replies of all clients, each message once (netsim runs some again to measure them)."""
    found: Answers = {}
    for file in sorted(folder.glob("*.jsonl")):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        found[int(file.stem)] = list({line["id"]: line for line in reversed(lines)}.values())[::-1]
    return found


def read(found: Outcome) -> Outcome:
    """Read rounds from the log, and the summary of netsim."""
    for line in found.text.splitlines():
        if line.startswith("{") and '"run_dir"' in line:
            found.summary = json.loads(line)
        elif match := ROUND.search(line):
            found.rounds = max(found.rounds, *(int(number) for number in match.groups() if number))
    if "Traceback" in found.text and not any(found.valid(kind) for kind in ("train", "evaluate", "query")):
        found.code = found.code or 1      # Flower's engine ends with 0 if all clients fail
    return found


def compared(name: str, theirs: Outcome, ours: Outcome, more: Sequence[Outcome]) -> Row:
    """Return the line of an app."""
    row = Row(name, version("flwr"), theirs.code == 0, ours.code == 0)
    if not (row.flower and row.netsim):
        row.reason = why(ours if row.flower else theirs)
    if row.netsim:
        sent = ours.summary["messages"]
        kind = "train" if "train" in sent else "query" if "query" in sent else "evaluate"
        count = sent.get(kind, {"sent": 0, "answered": 0})
        row.trained = f"{theirs.valid(kind)} / {count['answered']}{'' if kind == 'train' else f' ({kind})'}"
        # Flower's engine ends with the ServerApp and loses the last messages of an app that waits for no reply
        row.complete = row.flower and theirs.valid(kind) <= count["answered"] and theirs.rounds == ours.rounds
    if row.flower and row.netsim:
        row.rounds = f"{theirs.rounds or '?'} / {ours.rounds or '?'} / {ours.summary['rounds']}"
        row.ratio = ours.cpu_s / theirs.cpu_s
        row.verdict = agreement(theirs, ours, more)
    return row


def agreement(theirs: Outcome, ours: Outcome, more: Sequence[Outcome]) -> str:
    """Return whether the replies are the same, or no farther from Flower's runs than these lie apart."""
    largest, name = largest_difference(theirs.answers, ours.answers)
    if largest <= SAME:
        return f"same ({largest:.0e})" if largest else "same"
    flowers = [theirs, *more]
    spread = max((largest_difference(one.answers, other.answers)[0] for one in flowers for other in flowers), default=0)
    nearest = min(largest_difference(each.answers, ours.answers)[0] for each in flowers)
    if spread == math.inf:
        return f"within the spread of {len(flowers)} runs: the order of messages to a node varies in Flower's engine"
    verdict = f"within the spread of {len(flowers)} runs" if nearest <= spread else "differs"
    return f"{verdict}: {nearest:.2g}, spread {spread:.2g} ({name})"


def largest_difference(one: Answers, other: Answers) -> tuple[float, str]:
    """Return the largest relative difference of a number in two engines' replies, and its name; infinity if the
    messages are not the same."""
    pairs = [(first, second) for node in one for first, second in zip(one[node], other.get(node, []), strict=False)]
    if {node: [each["type"] for each in some] for node, some in one.items()} != {
            node: [each["type"] for each in some] for node, some in other.items()}:
        return math.inf, "other messages"
    found = [(difference(first.get("numbers", {}), second.get("numbers", {}), name), name)
             for first, second in pairs for name in {**first.get("numbers", {}), **second.get("numbers", {})}]
    return max(found, default=(0.0, ""))


def difference(one: Mapping[str, float], other: Mapping[str, float], name: str) -> float:
    first, second = one.get(name, math.inf), other.get(name, math.inf)
    if first == second or (math.isnan(first) and math.isnan(second)):
        return 0.0
    return abs(first - second) / max(abs(first), abs(second))


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
    return (f"| {row.app} | {row.flwr} | {yes[row.flower]} | {yes[row.netsim]} | {row.rounds} | {row.trained} | "
            f"{row.verdict} | {ratio} | {row.reason.replace('|', '/')} |")


def table_of(rows: Sequence[Row]) -> str:
    """Return the table, with versions and date, and what it comes to."""
    counted = [row for row in rows if row.flower]
    same = [row for row in counted if row.verdict.startswith("same")]
    spread = [row for row in counted if row.verdict.startswith("within")]
    return "\n".join([
        f"flwr {version('flwr')}, ray {version('ray')}, torch {version('torch')}, Python "
        f"{sys.version_info.major}.{sys.version_info.minor}, {time.strftime('%Y-%m-%d')}", "",
        f"Of {len(rows)} apps, Flower's engine runs {len(counted)} here. netsim runs "
        f"{sum(row.netsim for row in counted)} of these, {sum(row.complete for row in counted)} with the same number "
        f"of rounds and every training counted. The replies of all clients are the same for {len(same)} apps, and no "
        f"farther from Flower's than Flower's runs lie apart for {len(spread)}.", "",
        "| app | flwr | Flower | netsim | rounds (Flower / netsim's log / trace) | trainings (Flower / netsim) | "
        "replies | CPU, netsim : Flower | reason |", "|---|---|---|---|---|---|---|---|---|", *map(line_of, rows)])


if __name__ == "__main__":
    main()

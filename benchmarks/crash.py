"""Kill runs and sweeps with signal 9 at random moments, then let them go on: python benchmarks/crash.py [KILLS [KIND]].

Kinds are learning (a run that trains), rounds (one that does not, in several parts) and sweep (cells in workers of
their own); by default they take turns. Every row must end in the same bytes that an undisturbed one left: trace, links,
jobs, devices, scenario and checksums, the arrays of the checkpoint, the summary, and the records of a sweep's cells.
The exit code says whether it did.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

SWEEP = """\
scenario = "tiny"
seeds = 3
learning = false
set.end.rounds = 400
grid.allocation.method = ["sao", "equal"]
"""
LEARNING = ["run", "quickstart", "--set", "end.rounds=12", "--set", "learning.model=fashion-cnn",
            "--set", "population.phone.count=8", "--set", "learning.local_iterations=1", "--set", "selection.cohort=3",
            "--seed", "11", "--workers", "2", "--json", "--out", "run"]
ROUNDS = ["run", "tiny", "--set", "end.rounds=3000", "--seed", "11", "--json", "--out", "run"]
COMMANDS = {"learning": LEARNING, "rounds": ROUNDS, "sweep": ["sweep", "sweep.toml", "--workers", "2"]}
PASSING = ("seconds", "processor", "run_dir")      # of a record: not the same on two occasions


def main(kills: int, kinds: list[str]) -> int:
    """Play each kind once undisturbed, then kill and go on; prints a table and returns how many rows differ."""
    import netsim.simulate  # here, so that those who are forked need not import anything  # noqa: F401
    from netsim.learning.learner import open_learner  # noqa: F401

    chance, bad = random.Random(1), 0
    with TemporaryDirectory(prefix="netsim-crash-") as name:
        home = Path(name)
        wanted, lasts = {}, {}
        for kind in kinds:
            began = time.perf_counter()
            os.waitpid(started(kind, home / kind), 0)
            lasts[kind], wanted[kind] = time.perf_counter() - began, fingerprint(home / kind)
            print(f"{kind}: {lasts[kind]:.1f} s undisturbed, {len(wanted[kind])} files", flush=True)
        print(" kill kind      after s  complete  orphans  same bytes")
        for number in range(kills):
            kind = kinds[number % len(kinds)]
            folder = home / f"killed-{number}"
            after = chance.uniform(0.0, lasts[kind])
            left = killed(kind, folder, after)
            complete = progress(folder)
            os.waitpid(started(kind, folder, "--resume"), 0)
            same = fingerprint(folder) == wanted[kind]
            bad += not same
            ends = "yes" if same else "NO"
            print(f"{number:5d} {kind:8s} {after:8.2f} {complete:>9} {left:8d} {ends:>11}", flush=True)
    print(f"{kills - bad} of {kills} ended as if nobody had killed them")
    return bad


def started(kind: str, folder: Path, *more: str) -> int:
    """The command in a process of its own, which has all modules loaded already; returns its number."""
    folder.mkdir(exist_ok=True)
    (folder / "sweep.toml").write_text(SWEEP)
    child = os.fork()
    if child:
        return child
    from netsim.cli import main as netsim

    os.chdir(folder)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    sys.argv = ["netsim", *COMMANDS[kind], *(more if kind != "sweep" else ())]      # a sweep goes on by itself
    code = 0
    try:
        netsim()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    os._exit(code)


def killed(kind: str, folder: Path, after: float) -> int:
    """Start a command and kill it; returns how many of its workers outlived it."""
    process = started(kind, folder)
    time.sleep(after)
    workers = children(process)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return outlived(workers)


def fingerprint(folder: Path) -> dict[str, str]:
    """What must be the same, file by file."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix in (".parquet", ".toml", ".sha256") and path.name != "table.parquet":
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif path.name == "checkpoint.npz":
            found[name] = _arrays(path)
        elif path.suffix == ".json" and path.name != "run.json":
            record = json.loads(path.read_text())
            found[name] = json.dumps({key: value for key, value in record.items() if key not in PASSING})
    return found


def _arrays(path: Path) -> str:
    from netsim.base.sealed import read_arrays

    digest = hashlib.sha256()
    for name, array in sorted(read_arrays(path).items()):
        digest.update(name.encode() + array.tobytes())
    return digest.hexdigest()


def progress(folder: Path) -> str:
    """How far it was: complete rounds of a run, finished cells of a sweep."""
    run = folder / "run" / "run.json"
    cells = list(folder.glob("results/sweeps/sweep/cells/*.json"))
    return str(json.loads(run.read_text())["round"]) if run.exists() else f"{len(cells)} cells" if cells else "nothing"


def children(pid: int) -> list[int]:
    """The processes that a process has started, on Linux."""
    return [int(child) for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()]


def outlived(workers: list[int], seconds: float = 20.0) -> int:
    """How many workers are still there some time after their parent was killed."""
    end = time.monotonic() + seconds
    while (left := [pid for pid in workers if alive(pid)]) and time.monotonic() < end:
        time.sleep(0.05)
    return len(left)


def alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


if __name__ == "__main__":
    words = sys.argv[1:]
    number = int(words[0]) if words else 50
    sys.exit(main(number, words[1:] or list(COMMANDS)) > 0)

"""Kill runs and sweeps with signal 9 wherever they have come to, then let them go on: python benchmarks/crash.py.

    python benchmarks/crash.py 200 --counted kills.jsonl      # goes on where it was left
    python benchmarks/crash.py 20 --kinds sweep-2

Kinds are runs that train, with one worker and with two, and under servers that do not wait; runs that do not train, in
several parts; and sweeps with one worker and with two. They take turns. A kill comes a random moment after a round (of
a sweep: a cell) was reached, and these take turns as well, from the beginning to the last. Every row must end in the
bytes that an undisturbed one left: trace, links, jobs, devices, scenario and checksums, the arrays of the checkpoint,
the summary, and the records of a sweep's cells. The exit code says whether it did.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

SWEEP = """\
scenario = "tiny"
seeds = 4
learning = false
set.end.rounds = 400
grid.allocation.method = ["sao", "equal"]
"""
LEARNING = ["run", "quickstart", "--set", "end.rounds=12", "--set", "learning.model=fashion-cnn",
            "--set", "population.phone.count=8", "--set", "learning.local_iterations=1", "--set", "selection.cohort=3",
            "--seed", "11", "--json", "--out", "run", "--workers"]
OTHER = [*LEARNING, "2", "--set", "selection.method=fedavg", "--set"]
COMMANDS = {
    "learning-1": [*LEARNING, "1"],
    "learning-2": [*LEARNING, "2"],
    "fedbuff": [*OTHER, 'server={kind="fedbuff", buffer=2}'],
    "fedasync": [*OTHER, 'server={kind="fedasync"}'],
    "port": [*OTHER, 'server={kind="port", buffer=2}'],
    "window": [*OTHER, 'server={kind="window", period="100 ms"}'],
    "first-k": [*OTHER, 'server={kind="first-k", buffer=2}'],
    "rounds": ["run", "tiny", "--set", "end.rounds=6000", "--seed", "11", "--json", "--out", "run"],
    "sweep-1": ["sweep", "sweep.toml", "--workers", "1"],
    "sweep-2": ["sweep", "sweep.toml", "--workers", "2"],
}
PASSING = ("seconds", "processor", "run_dir", "sha256")      # of a record: not the same on two occasions
ROW = "{number:5d} {kind:10s} {goal:6d} {reached:8d} {of:5d} {orphans:8d} {same!s:>11}"


def main() -> int:
    """Play each kind once undisturbed, then kill and go on; prints a table and returns how many rows differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int, nargs="?", default=50)
    parser.add_argument("--kinds", nargs="+", choices=COMMANDS, default=list(COMMANDS))
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--counted", type=Path, help="file of the kills so far, which are not played again")
    given = parser.parse_args()
    file = given.counted and given.counted.resolve()
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file and file.exists() else []
    for row in played(range(len(rows), given.kills), given.kinds, given.seed):
        rows.append(row)
        print(ROW.format(**row), flush=True)
        if file:
            with file.open("a") as counted:
                counted.write(json.dumps(row) + "\n")
    tell(rows)
    return sum(not row["same"] for row in rows)


def played(numbers: range, kinds: list[str], seed: int) -> Iterator[dict[str, Any]]:
    """Kills, one after the other, and how each ended."""
    import netsim.simulation  # here, so that those who are forked need not import anything  # noqa: F401
    from netsim.learning.local_training import open_trainer  # noqa: F401

    with TemporaryDirectory(prefix="netsim-crash-") as name:
        home = Path(name)
        wanted, marks, pause = {}, {}, {}
        for kind in kinds if numbers else ():
            marks[kind], pause[kind] = undisturbed(kind, home / kind)
            wanted[kind] = fingerprint(home / kind)
            print(f"{kind}: {len(marks[kind])} places to be killed after, {pause[kind]:.2f} s apart, "
                  f"{len(wanted[kind])} files", flush=True)
        print(" kill kind         goal  reached    of  orphans  same bytes")
        for number in numbers:
            kind, turn = kinds[number % len(kinds)], number // len(kinds)
            goal = marks[kind][turn % (len(marks[kind]) - 1)]      # not the last: then there is nothing to kill
            chance, folder = random.Random(f"{seed}-{number}"), home / f"killed-{number}"
            orphans = killed(kind, folder, goal, chance.uniform(0.0, 1.5 * pause[kind]))
            reached = progress(folder)
            os.waitpid(started(kind, folder, "--resume"), 0)
            yield {"number": number, "kind": kind, "goal": goal, "reached": reached, "of": marks[kind][-1],
                   "orphans": orphans, "same": fingerprint(folder) == wanted[kind]}


def tell(rows: list[dict[str, Any]]) -> None:
    """Print how many kills of each kind came when, and how they ended."""
    print("\nkind        kills  before the first    in between  after the last  orphans  same bytes")
    for kind in COMMANDS:
        own = [row for row in rows if row["kind"] == kind]
        where = Counter("first" if not row["reached"] else "last" if row["reached"] == row["of"] else "between"
                        for row in own)
        print(f"{kind:10s} {len(own):6d} {where['first']:17d} {where['between']:13d} {where['last']:15d} "
              f"{sum(row['orphans'] for row in own):8d} {sum(row['same'] for row in own):11d}")
    print(f"{sum(row['same'] for row in rows)} of {len(rows)} ended in the bytes of an undisturbed run")


def undisturbed(kind: str, folder: Path) -> tuple[list[int], float]:
    """Play a command to its end: the numbers of rounds or cells at which it was seen, and the seconds between them."""
    process, began, seen = started(kind, folder), time.perf_counter(), {0}
    while running(process):
        seen.add(progress(folder))
        time.sleep(0.001)
    os.waitpid(process, 0)
    marks = sorted(seen | {progress(folder)})
    return marks, (time.perf_counter() - began) / len(marks)


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
    words = COMMANDS[kind]
    sys.argv = ["netsim", *words, *(more if words[0] == "run" else ())]      # a sweep goes on by itself
    code = 0
    try:
        netsim()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    os._exit(code)


def killed(kind: str, folder: Path, goal: int, after_s: float) -> int:
    """Start a command and kill it a moment after it has reached a goal; returns how many of its workers outlived it."""
    process = started(kind, folder)
    while running(process) and progress(folder) < goal:
        time.sleep(0.001)
    end = time.perf_counter() + after_s
    while running(process) and time.perf_counter() < end and progress(folder) <= goal + 1:      # on a fast machine: now
        time.sleep(0.001)
    workers = children(process)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return outlived(workers)


def running(process: int) -> bool:
    """Whether a child of ours has not ended yet."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


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
    from netsim.base.checksummed import read_arrays

    digest = hashlib.sha256()
    for name, array in sorted(read_arrays(path).items()):
        digest.update(name.encode() + array.tobytes())
    return digest.hexdigest()


def progress(folder: Path) -> int:
    """How far it is: complete rounds of a run, finished cells of a sweep."""
    run = folder / "run" / "run.json"
    if run.exists():
        return int(json.loads(run.read_text())["round"])
    return len(list(folder.glob("results/sweeps/sweep/cells/*.json")))


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
    """Whether a process runs; one that is not waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main() > 0)

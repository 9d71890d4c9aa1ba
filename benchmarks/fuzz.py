"""Mutated scenarios, damaged and forged run folders and odd tables, through the real command line.

    python benchmarks/fuzz.py --scenarios 10000 --folders 2000 --tables 1000 --forged 500 --counted FILE    # goes on
    python benchmarks/fuzz.py --only folders:17 --keep DIR      # one case again, with what it read and said

Every case follows from the campaign's seed and its own number alone, so that each finding can be played again. Cases
are forked from one process that has everything loaded, a hundred at a time, and a case ends in one of five ways; all
but the first two are faults:

    ok            exit code 0, and an answer that holds together (of a damaged run: that of the undamaged one)
    refused       exit code 2 and one sentence
    traceback     an exception reached the user, or the exit code was another
    wrong         exit code 0 with an answer that cannot be
    hang          not done after 20 s of computing, or after five minutes on a machine that is busy with other things
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import math
import os
import pkgutil
import random
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

os.environ.setdefault("POLARS_MAX_THREADS", "1")      # cases are forked: threads would stay behind
os.environ.setdefault("OMP_NUM_THREADS", "1")

from fuzzing.commands import FaultError
from fuzzing.folders import folder_case, make_runs
from fuzzing.forged import forged_case, make_forged
from fuzzing.scenarios import scenario_case
from fuzzing.tables import table_case

LIMIT_S = 20      # of computing
WAIT_S = 300.0    # on the clock
MOST_BYTES = 8 << 30
KINDS = {"scenarios": 10_000, "folders": 2_000, "tables": 1_000, "forged": 500}
FAULTS = ("traceback", "wrong", "hang")
TOGETHER = 100     # cases that a process plays
End = tuple[str, str]      # how a case ended, and what was said
Case = tuple[str, int]     # its kind and number


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind, size in KINDS.items():
        parser.add_argument(f"--{kind}", type=int, default=size, metavar="N", help=f"how many in all ({size})")
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no more cases of a kind after so long")
    parser.add_argument("--counted", type=Path, help="file of the ends so far: those cases are not played again")
    parser.add_argument("--only", help="one case again, such as folders:17")
    parser.add_argument("--keep", type=Path, help="folder for what --only reads")
    given = parser.parse_args()
    home = Path(mkdtemp(prefix="netsim-fuzz-"))
    try:
        load_everything()
        for _ in ends([("runs", 0)], lambda _kind, _number: made_runs(home), 1):
            pass
        return again(given, home) if given.only else play(given, home)
    finally:
        os.chdir("/")
        shutil.rmtree(home, ignore_errors=True)


def made_runs(home: Path) -> End:
    """Make the runs that cases damage or forge."""
    make_runs(home)
    make_forged(home)
    return "ok", ""


def load_everything() -> None:
    """Import whatever a command may need, so that no case waits for it."""
    import sklearn.datasets
    import torch
    import typer.main

    import netsim
    from netsim import validation
    from netsim.cli import app

    for module in pkgutil.walk_packages(netsim.__path__, "netsim."):
        if ".lab" not in module.name and "__main__" not in module.name:
            importlib.import_module(module.name)
    assert sklearn.datasets
    torch.set_num_threads(1)
    typer.main.get_command = cache(typer.main.get_command)      # half of a short command is to put its options together
    typer.main.get_command(app)
    validation.layers_of = once_a_table(validation.layers_of)
    gc.collect()
    gc.freeze()      # so that collecting does not copy every page into every case


def once_a_table(layers_of: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Networks are built once for each [learning] table: most cases have one that was met before."""
    known: dict[str, Any] = {}

    def layers(scenario: Any) -> Any:
        table = repr(scenario.learning)
        if table not in known:
            known[table] = layers_of(scenario)
        return known[table]

    return layers


def again(given: argparse.Namespace, home: Path) -> int:
    kind, number = given.only.split(":")
    how, words = case(kind, given.seed, int(number), home, given.keep and given.keep.resolve())
    print(f"{how}\n{words}")
    return how in FAULTS


def play(given: argparse.Namespace, home: Path) -> int:
    """All of it; returns how many faults there were."""
    file = given.counted and given.counted.resolve()
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file and file.exists() else []
    done: dict[Case, str] = {(kind, number): how for seed, kind, number, how in rows if seed == given.seed}
    print(f"seed {given.seed}; {len(done)} cases were played before", flush=True)
    for kind in KINDS:
        wanted = [(kind, number) for number in range(getattr(given, kind)) if (kind, number) not in done]
        until = time.monotonic() + 60 * given.minutes
        work = lambda kind, number: case(kind, given.seed, number, home)      # noqa: E731
        for number, (how, words) in ends(wanted, work, given.jobs, until):
            done[kind, number] = how
            if how in FAULTS:
                print(f"{kind}:{number} {how}: {words}", flush=True)
            if file:
                with file.open("a") as counted:
                    counted.write(json.dumps([given.seed, kind, number, how]) + "\n")
    print("\ncases       played      ok  refused  traceback  wrong  hang")
    for kind in KINDS:
        counts = Counter(how for (own, _), how in done.items() if own == kind)
        print(f"{kind:10s} {counts.total():7d} {counts['ok']:7d} {counts['refused']:8d} {counts['traceback']:10d} "
              f"{counts['wrong']:6d} {counts['hang']:5d}")
    return sum(how in FAULTS for how in done.values())


def case(kind: str, seed: int, number: int, home: Path, keep: Path | None = None) -> End:
    """Play one case in this very process."""
    chance = random.Random(f"{kind}-{seed}-{number}")
    folder = keep or Path(mkdtemp(prefix="case-", dir=home))
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    try:
        if kind in ("folders", "forged"):
            return {"folders": folder_case, "forged": forged_case}[kind](chance, folder, home), ""
        return {"scenarios": scenario_case, "tables": table_case}[kind](chance, folder), ""
    except FaultError as fault:
        return fault.how, str(fault)
    except Exception:
        return "traceback", traceback.format_exc()
    finally:
        if keep is None:
            os.chdir(home)
            shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Batch:
    """Cases in a process of their own, one after the other: a fork takes longer than many a case."""

    child: int
    left: deque[Case]      # those whose end was not told yet, the one at work first
    since: float
    words: bytes = b""

    def told(self, words: bytes) -> Iterator[tuple[int, End]]:
        """The cases that have ended, a line each."""
        *lines, self.words = (self.words + words).split(b"\n")
        for line in lines:
            self.since = time.monotonic()
            how, said = json.loads(line)
            yield self.left.popleft()[1], (how, said)

    def gone(self) -> Iterator[tuple[int, End]]:
        """The case, if any, that ended the process."""
        _, status = os.waitpid(self.child, 0)
        if self.left:
            yield self.left.popleft()[1], cut_short(status)


def ends(cases: list[Case], work: Callable[[str, int], End], jobs: int,
         until: float = math.inf) -> Iterator[tuple[int, End]]:
    """Play cases in so many processes at a time, and say how they ended, as they do."""
    waiting = deque(cases)
    running: dict[int, Batch] = {}      # by the pipe with the ends of its cases
    while True:
        while len(running) < jobs and waiting and time.monotonic() < until:
            pipe, batch = forked(deque(waiting.popleft() for _ in range(min(TOGETHER, len(waiting)))), work)
            running[pipe] = batch
        if not running:
            return
        for pipe in select.select(list(running), [], [], 1.0)[0]:
            words = os.read(pipe, 1 << 16)
            yield from running[pipe].told(words)
            if not words:      # the process has ended
                os.close(pipe)
                yield from (batch := running.pop(pipe)).gone()
                waiting.extendleft(reversed(batch.left))
        for batch in running.values():
            if time.monotonic() - batch.since > WAIT_S:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(batch.child, signal.SIGKILL)


def forked(cases: deque[Case], work: Callable[[str, int], End]) -> tuple[int, Batch]:
    """Start some cases; the pipe with their ends, and who plays them."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))      # a case must not take the machine down
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        try:
            for kind, number in cases:
                most = math.ceil(time.process_time()) + LIMIT_S               # the load of the machine is no hang
                resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
                os.write(theirs, json.dumps(work(kind, number)).encode() + b"\n")
        finally:
            os._exit(0)      # the campaign itself goes on in its own process, or was stopped
    os.close(theirs)
    return ours, Batch(child, cases, time.monotonic())


def cut_short(status: int) -> End:
    """The end of a case, as the system says it."""
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGXCPU):
        used = f"{LIMIT_S} s of computing" if os.WTERMSIG(status) == signal.SIGXCPU else f"{WAIT_S:.0f} s on the clock"
        return "hang", f"not done after {used}, or ended for want of memory"
    return "traceback", f"the process ended with status {status} and without a word"


if __name__ == "__main__":
    sys.exit(main() > 0)

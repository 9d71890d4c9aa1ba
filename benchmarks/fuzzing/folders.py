"""Damaged runs: a finished one, a finished one that has learned, and one that was cut off while learning."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .commands import Answer, FaultError, netsim, tell

LEARNED = ["--set", "end.rounds=3", "--set", "learning.local_iterations=1", "--set", "population.phone.count=6",
           "--set", "population.phone.samples=12", "--set", "selection.cohort=2", "--set", "learning.model=fashion-cnn",
           "--workers", "1", "--json"]
RUNS: dict[str, tuple[object, ...]] = {
    "rounds": ("run", "tiny", "--set", "end.rounds=6", "--json"),
    "learned": ("run", "quickstart", *LEARNED),
    "cut": ("run", "quickstart", *LEARNED),
}


class Cut(BaseException):
    """Ends a run as a signal would."""


def make_runs(home: Path) -> None:
    """The undamaged runs, and what the commands say of them."""
    for name, words in RUNS.items():
        netsim(*words, "--out", home / "whole" / name)
        if name == "cut":
            shutil.rmtree(home / "whole" / name)
            cut_off(words, home / "whole" / name)
        shutil.copytree(home / "whole" / name, home / "asked" / name)
        said = {kind: answer.out for kind, answer in readers(name, home / "asked" / name) if answer.code == 0}
        (home / f"{name}.json").write_text(json.dumps(
            {kind: plain(out, home / "asked" / name) for kind, out in said.items()}))


def cut_off(words: tuple[object, ...], folder: Path) -> None:
    """Stop a run after its second round, as a signal would."""
    from netsim.server import synchronous

    was = synchronous.SynchronousServer.ended

    def ended(self: Any) -> bool:
        if self.rounds.version >= 2:
            raise Cut
        return was(self)

    synchronous.SynchronousServer.ended = ended      # type: ignore[method-assign]
    try:
        with contextlib.suppress(Cut):
            netsim(*words, "--out", folder)
    finally:
        synchronous.SynchronousServer.ended = was    # type: ignore[method-assign]


def readers(name: str, folder: Path) -> Iterator[tuple[str, Answer]]:
    """Every command that reads a run's folder; going on with it comes last, since it may complete it."""
    yield "breakdown", netsim("breakdown", folder, "--json")
    yield "path", netsim("critical-path", folder, "--json")
    exported = netsim("export", folder, "--format", "csv", "--out", folder.parent / "x.csv", "--force")
    text = (folder.parent / "x.csv").read_text() if exported.code == 0 else exported.out
    yield "export", Answer(exported.code, text, exported.err)
    resumed = netsim(*RUNS[name], "--out", folder, "--resume")
    yield "resume", resumed
    if resumed.code == 0:
        yield "again", netsim("breakdown", folder, "--json")


def plain(out: str, folder: Path) -> str:
    """An answer without the place where the run lies."""
    return out.replace(str(folder), "RUN")


def damage(path: Path, chance: random.Random) -> str:
    """Bytes of a file turn, are zeroed, lost or added; says what was done."""
    content = bytearray(path.read_bytes())
    way = chance.choice(["flip", "flip", "zero", "cut", "more", "swap"]) if content else "more"
    at = chance.randrange(len(content)) if content else 0
    if way == "flip":
        for _ in range(chance.choice([1, 1, 2, 4, 8])):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    elif way == "zero":
        length = min(chance.choice([1, 4, 64, 512, 4096]), len(content) - at)
        content[at : at + length] = bytes(length)
    elif way == "cut":
        del content[at:]
    elif way == "more":
        content[at:at] = chance.randbytes(chance.choice([1, 16, 512]))
    else:
        other = chance.randrange(len(content))
        content[at], content[other] = content[other], content[at]
    path.write_bytes(content)
    return f"{way} at {at} of {path.name}"


def folder_case(chance: random.Random, folder: Path, home: Path) -> str:
    """A file of a run is damaged, or lost; every command says so, or answers as if it were not."""
    name = chance.choice(list(RUNS))
    run = folder / "run"
    shutil.copytree(home / "whole" / name, run)
    files = sorted(path for path in run.rglob("*") if path.is_file() and path.name != "lock")
    victim = chance.choice(files)
    if chance.random() < 0.05:
        victim.unlink()
        what = f"{victim.name} lost"
    else:
        what = damage(victim, chance)
    expected = json.loads((home / f"{name}.json").read_text())
    refused = False
    for kind, answer in readers(name, run):
        if not tell(answer, kind, what, "of", name):
            refused = True
        elif plain(answer.out, run) != expected.get(kind):
            raise FaultError("wrong", f"{name}, {what}: {kind} says something else and exits with 0")
    return "refused" if refused else "ok"

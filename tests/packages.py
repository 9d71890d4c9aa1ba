"""Packages of users, as pip leaves them in a folder: the code and a dist-info beside it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from commands import commands

METHOD = '''
from pathlib import Path

Path(__file__).with_name("imported").touch()      # a trace of its own: importing runs code

from netsim.allocation import Plan, Problem, allocate


def solve(problem: Problem, share: float = 1.0) -> Plan:
    return allocate(problem, "equal")
'''


def install(
    site: Path, name: str = "mylab", *, requires: str | None = None, entry_point: str | None = None,
    files: dict[str, str] | None = None, recorded: set[str] | None = None,
) -> Path:
    """Code and metadata of a package in a folder; ``recorded`` are those of its files that it admits to."""
    code = {f"{name}/__init__.py": "", f"{name}/methods.py": METHOD} if files is None else files
    for path, text in code.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
                                   + (f"Requires-Dist: {requires}\n" if requires else ""))
    if entry_point:
        (info / "entry_points.txt").write_text(f"[{entry_point}]\nsolve = {name}.methods:solve\n")
    listed = code.keys() if recorded is None else recorded
    (info / "RECORD").write_text("".join(f"{path},,\n" for path in (*listed, f"{info.name}/METADATA")))
    return site / name / "imported"


def netsim(*words: str, site: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own, with a folder of packages on its path."""
    done = commands().run(cwd, *words, packages=site)
    return subprocess.CompletedProcess(words, done.returncode, done.stdout.decode(), done.stderr.decode())

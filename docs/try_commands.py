"""Run every command of README.md and of the tutorial, word for word, in a fresh clone of the last commit.

    python docs/try_commands.py              with the packages of this Python; nothing is installed, as the tests do it
    python docs/try_commands.py --full       as for a new user: the clone gets its own .venv, from the network

Lines of blocks without a language or with ``sh`` are commands; in a ``console`` block those that begin with ``$``, and
what follows one must be part of what it prints; ``python`` blocks are run; a block that begins with a comment such as
``# my-cell.toml`` is saved under that name. In the text, `netsim …`, `make …` and `pip …` are commands as well. A page
goes from top to bottom in one state of the shell (folder, variables); the same command is played once in a clone. One
that ends with another exit code than 0 (2 where an error is shown below it), prints a traceback or not what the page
says is a failure. What is not played as it stands is listed in INSTEAD, with the reason.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/tutorial.md")
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"# ([\w./-]+\.(?:py|toml|csv))\n")
IN_TEXT = re.compile(r"`((?:netsim|make|pip)\s[^`]+|\. [^`]+)`")
LONGEST_S = 3600.0      # of a command, on a busy machine

# what an editable install leaves: where packages are, whatever folder one is in, and a program
FINDER = """import sys
from importlib.util import spec_from_file_location

FOLDERS = {folders}

class CloneFinder:
    def find_spec(name, path=None, target=None):
        if name in FOLDERS:
            return spec_from_file_location(name, FOLDERS[name] + "/__init__.py",
                                           submodule_search_locations=[FOLDERS[name]])

sys.meta_path.insert(0, CloneFinder)
"""
SCRIPT = """#!{python}
from {module} import {function}
if __name__ == "__main__":
    {function}()
"""


@dataclass(frozen=True)
class Instead:
    """What is done in the place of a command that can't be played as it stands, and why."""

    why: str
    do: str = ""                # the command that is played; none: nothing is
    waits: bool = False         # end it by Ctrl-C as soon as the address that it prints answers
    full: bool = False          # with --full too


INSTALLS = "it installs from the network; what it installs is there already"
INSTEAD = {
    "pip install -e '.[flower]'": Instead(INSTALLS),
    "pip install -e '.[lab]'": Instead(INSTALLS),
    "pip install marimo": Instead(INSTALLS),
    "make test": Instead("it would run the tests, and they this", "make --dry-run test"),
    "make bench": Instead("it measures for an hour", "make --dry-run bench", full=True),
    "netsim lab": Instead("it waits for Ctrl-C, and gets it", "netsim lab", waits=True, full=True),
    "netsim reproduce --quick all": Instead("it takes minutes", "netsim reproduce --quick table2"),
    "netsim reproduce fig7": Instead("its hundred layouts take half a minute", "netsim reproduce fig7 --trials 5"),
    "netsim allocate": Instead("it is named, not given", "netsim allocate --help", full=True),
    "netsim dataset fetch mnist --root data": Instead("it downloads", "netsim dataset fetch digits --root data"),
}


@dataclass(frozen=True)
class Step:
    """Something that a page asks its reader to do."""

    line: int
    kind: str                   # "shell", "python" or "file"
    text: str
    expected: tuple[str, ...] = ()
    file: str = ""              # to save the text in


@dataclass
class Shell:
    """Commands one after the other, each in a process of its own that goes on from the state of the last."""

    folder: Path
    variables: dict[str, str]
    _state: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="try-commands-")))

    def run(self, command: str, *, waits: bool = False) -> tuple[int, str]:
        """The exit code of a command, and what it prints on both streams."""
        state, printed = self._state / "state", self._state / "printed"
        keep = f"\nended=$?; {{ pwd; env -0; }} > {shlex.quote(str(state))}; exit $ended"
        with printed.open("wb") as out:
            process = subprocess.Popen(["bash", "-c", command + keep], cwd=self.folder, env=self.variables, stdout=out,
                                       stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
                                       preexec_fn=heed_ctrl_c)
            try:
                if waits:
                    visit_and_interrupt(process, printed)
                code = process.wait(LONGEST_S)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        if state.exists():
            folder, _, rest = state.read_text(encoding="utf-8").partition("\n")
            self.folder = Path(folder)
            self.variables = dict(each.split("=", 1) for each in rest.split("\0") if "=" in each)
            state.unlink()
        return code, printed.read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        shutil.rmtree(self._state)


def heed_ctrl_c() -> None:
    """As in a terminal: what runs in the background of a script is deaf to Ctrl-C, and so are its children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def visit_and_interrupt(process: subprocess.Popen[bytes], printed: Path) -> None:
    """Open the page whose address a command prints, and press Ctrl-C."""
    while process.poll() is None:
        address = re.search(rb"http://[\w.:/-]+", printed.read_bytes())
        if address:
            with suppress(OSError), urlopen(address[0].decode(), timeout=LONGEST_S):
                os.killpg(process.pid, signal.SIGINT)
                return
        time.sleep(0.2)


def steps(text: str) -> Iterator[Step]:
    """What a page asks for, from top to bottom."""
    end = 0
    for fence in FENCE.finditer(text):
        yield from in_the_text(text, end, fence.start())
        yield from in_a_block(fence[1].strip(), fence[2], text.count("\n", 0, fence.start(2)) + 1)
        end = fence.end()
    yield from in_the_text(text, end, len(text))


def in_the_text(text: str, start: int, end: int) -> Iterator[Step]:
    for span in IN_TEXT.finditer(text, start, end):
        yield Step(text.count("\n", 0, span.start()) + 1, "shell", " ".join(span[1].split()))


def in_a_block(language: str, block: str, first: int) -> Iterator[Step]:
    named = NAMED.match(block)
    if named:
        yield Step(first, "file", block.removeprefix(named[0]) if named[1].endswith(".csv") else block, file=named[1])
    elif language == "python":
        yield Step(first, "python", block)
    elif language == "console":
        yield from in_a_dialogue(block, first)
    elif language in ("", "sh"):
        for number, line in enumerate(block.splitlines(), first):
            if line.strip() and not line.startswith("#"):
                yield Step(number, "shell", line.partition("  #")[0].strip())


def in_a_dialogue(block: str, first: int) -> Iterator[Step]:
    begun: list[tuple[int, str, list[str]]] = []
    for number, line in enumerate(block.splitlines(), first):
        if line.startswith("$ "):
            begun.append((number, line[2:].partition("  #")[0].strip(), []))
        elif line.strip():
            begun[-1][2].append(line)
    for number, command, expected in begun:
        yield Step(number, "shell", command, tuple(expected))


def play(page: str, text: str, shell: Shell, done: set[str], *, full: bool = False) -> list[str]:
    """Play a page in a shell; returns what went wrong, each with page, line, command and output."""
    failures = []
    for step in steps(text):
        if step.kind == "file":
            (shell.folder / step.file).write_text(step.text, encoding="utf-8")
            continue
        if step.text in done and not step.text.startswith("."):      # what sets up a shell is for each page
            continue
        done.add(step.text)
        wrong = play_step(f"{page}:{step.line}", step, shell, full=full)
        if wrong:
            print(wrong, flush=True)
            failures.append(wrong)
    return failures


def play_step(where: str, step: Step, shell: Shell, *, full: bool) -> str:
    """Play one step; what is wrong with it, or nothing."""
    instead = INSTEAD.get(step.text, Instead("", step.text))
    if full and not instead.full:
        instead = Instead("", step.text)
    command = f"python -c {shlex.quote(step.text)}" if step.kind == "python" else instead.do
    shown = "python" if step.kind == "python" else step.text
    if not command:
        print(f"{where}: {shown}: left out: {instead.why}", flush=True)
        return ""
    began, before = time.monotonic(), cpu_s()
    code, printed = shell.run(command, waits=instead.waits)
    note = f"; {instead.why}: {command}" if instead.why else ""
    print(f"{where}: {shown}: {time.monotonic() - began:.1f} s, CPU {cpu_s() - before:.1f} s{note}", flush=True)
    problem = judge(code, printed, step.expected)
    return f"FAILED {where}: {shown}: {problem}\n{printed}" if problem else ""


def judge(code: int, printed: str, expected: Iterable[str]) -> str:
    """What is wrong with an answer; nothing if it is as the page says."""
    said = " ".join(printed.split())
    right = 2 if any(line.startswith("error:") for line in expected) else 0
    if code != right:
        return f"exit code {code} and not {right}"
    if "Traceback (most recent call last)" in printed:
        return "a traceback"
    missing = [line for line in expected if " ".join(line.split()) not in said]
    return f"does not print: {missing[0]}" if missing else ""


def cpu_s() -> float:
    """The processor time of all commands so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def borrow_packages(clone: Path) -> None:
    """A .venv in a clone, in no time and without a network: the clone's own code, over the packages of this Python."""
    venv = clone / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (site,) = venv.glob("lib/python*/site-packages")
    settings = tomllib.loads((clone / "pyproject.toml").read_text(encoding="utf-8"))
    folders = {package: str(clone / folder)
               for package, folder in settings["tool"]["setuptools"]["package-dir"].items()}
    (site / "clone_finder.py").write_text(FINDER.format(folders=folders), encoding="utf-8")
    borrowed = [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    (site / "clone.pth").write_text("\n".join(["import clone_finder", *borrowed]) + "\n", encoding="utf-8")
    for name, call in settings["project"]["scripts"].items():
        module, function = call.split(":")
        script = venv / "bin" / name
        script.write_text(SCRIPT.format(python=venv / "bin/python", module=module, function=function), encoding="utf-8")
        script.chmod(0o755)
    for target in ("ready", "ready-test"):      # so that make has nothing to install
        (venv / target).touch()


def outside() -> dict[str, str]:
    """The variables of a shell that knows nothing of the .venv that this runs in."""
    own = {str(Path(sys.prefix) / "bin"), str(Path(sys.executable).parent)}
    path = os.pathsep.join(entry for entry in os.environ["PATH"].split(os.pathsep)
                           if entry not in own or sys.prefix == sys.base_prefix)
    hidden = ("PYTHON", "VIRTUAL_ENV", "PYTEST", "MAKE", "MFLAGS", "COLUMNS", "GIT_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return {**kept, "PATH": path, "BROWSER": "true"}      # a browser that shows nothing


def try_all(pages: Iterable[str], folder: Path, *, full: bool) -> list[str]:
    """Clone, set up unless a newcomer would, and play the pages; returns what went wrong."""
    clone, variables = folder / "clone", outside()
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True, env=variables)
    if not full:
        borrow_packages(clone)
    failures, done = [], set[str]()
    for page in pages:
        shell = Shell(clone, variables)
        failures += play(page, (clone / page).read_text(encoding="utf-8"), shell, done, full=full)
        code, where = shell.run("python -c 'import netsim; print(netsim.__file__)'")
        if code or not Path(where.strip()).is_relative_to(clone.resolve()):
            failures.append(f"FAILED {page}: it was not the clone's netsim that was played, but {where}")
        shell.close()
    return failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", default=PAGES, help=f"pages, from the top of the repository: {PAGES}")
    parser.add_argument("--full", action="store_true", help="install into the clone, and play long commands in full")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="netsim-") as folder:
        failures = try_all(given.pages, Path(folder).resolve(), full=given.full)
    print(f"{len(failures)} failed:" if failures else "all is as the pages say", *failures, sep="\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()

"""Run the pages of the gallery and update their files, command outputs and figures.

    python docs/make_gallery.py                    # all pages
    python docs/make_gallery.py cohort battery     # these

The answer of a page is written by hand; tests/docs/test_gallery.py compares its numbers with the output.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

GALLERY = Path(__file__).parent / "gallery"
FILE = re.compile(r"^```(\w+)\n# ([\w-]+\.(?:toml|py))\n.*?^```$", re.DOTALL | re.MULTILINE)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FIGURE = re.compile(r"!\[[^]]*\]\(([\w-]+\.png)\)")
ABRIDGED = ("netsim run", "netsim explain", "netsim breakdown")     # a page shows only part of their output


def main(names: list[str]) -> None:
    for page in sorted(GALLERY.glob("*.md")):
        if page.stem != "index" and (not names or page.stem in names):
            print(page.stem, flush=True)
            with TemporaryDirectory() as folder:
                page.write_text(played(page.read_text(encoding="utf-8"), Path(folder)), encoding="utf-8")


def played(text: str, folder: Path) -> str:
    """Return the updated page; write its figures beside it."""
    text = FILE.sub(lambda block: f"```{block[1]}\n{saved(block[2], folder)}```", text)
    text = CONSOLE.sub(lambda block: f"```console\n{answered(block[1], folder)}```", text)
    for figure in FIGURE.findall(text):
        shutil.copyfile(next(folder.rglob(figure)), GALLERY / figure)
    return text


def saved(name: str, folder: Path) -> str:
    shutil.copyfile(GALLERY / name, folder / name)
    return (folder / name).read_text(encoding="utf-8")


def answered(block: str, folder: Path) -> str:
    """Return the commands of a block, each with its current output."""
    answer = ""
    for part in re.split(r"^(?=\$ )", block, flags=re.MULTILINE):
        command = part.partition("\n")[0]
        if command:
            printed = run(command.removeprefix("$ ").split(), folder)
            answer += part if command.startswith(tuple(f"$ {start}" for start in ABRIDGED)) else f"{command}\n{printed}"
    return answer


def run(words: list[str], folder: Path) -> str:
    program = [sys.executable, *(["-m", "netsim"] if words[0] == "netsim" else [])]
    done = subprocess.run([*program, *words[1:]], cwd=folder, check=True, text=True, stdout=subprocess.PIPE,
                          env=os.environ | {"MPLBACKEND": "agg", "COLUMNS": "100"})
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


if __name__ == "__main__":
    main(sys.argv[1:])

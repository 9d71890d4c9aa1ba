"""README's and the tutorial's commands, word for word in a fresh clone; and what plays them notices what is wrong."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "try_commands.py"


@pytest.fixture(scope="module")
def trying() -> SimpleNamespace:
    names = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "try_commands", SimpleNamespace(__dict__=names))      # its dataclasses look here
        names.update(runpy.run_path(str(SCRIPT), run_name="try_commands"))
    return SimpleNamespace(**names)


@pytest.mark.extended
@pytest.mark.skipif(not (ROOT / ".git").exists() or not shutil.which("git"), reason="no repository to clone")
def test_every_command_of_readme_and_tutorial_works_in_a_fresh_clone():
    """The clone is of the last commit: a file that README names and nobody committed is missing there."""
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[done.stdout.find("FAILED"):] + done.stderr
    for page in ("README.md", "docs/tutorial.md"):
        assert len(re.findall(rf"^{page}:\d+: netsim .* s, CPU", done.stdout, re.MULTILINE)) >= 14


def play(trying, text, folder):
    shell = trying.Shell(folder, trying.outside())
    try:
        return trying.play("page.md", text, shell, set())
    finally:
        shell.close()


def test_a_page_keeps_its_state_from_line_to_line(trying, tmp_path):
    (tmp_path / "inside").mkdir()
    assert play(trying, """
```
cd inside            # a comment
export COLOUR="light blue"
```
```toml
# made.toml
x = 1
```
```console
$ cat made.toml
x = 1
$ echo $COLOUR
light   blue
```
""", tmp_path) == []
    assert (tmp_path / "inside" / "made.toml").exists()


@pytest.mark.parametrize(("block", "line", "problem"), [
    ("```\ntrue\nls missing.toml\n```", 3, "exit code 2 and not 0"),
    ("```python\nprint(1 / 0)\n```", 2, "exit code 1 and not 0"),
    ("```sh\necho 'Traceback (most recent call last)'\n```", 2, "a traceback"),
    ("```console\n$ echo one\ntwo\n```", 2, "does not print: two"),
    ("```console\n$ echo error: no\nerror: no\n```", 2, "exit code 0 and not 2"),
    ("In the text: `make nothing` does it.", 1, "exit code 2 and not 0"),
])
def test_what_does_not_work_is_named_by_page_line_and_command(trying, tmp_path, block, line, problem):
    (failure,) = play(trying, block, tmp_path)
    assert failure.startswith(f"FAILED page.md:{line}: ")
    assert problem in failure.partition("\n")[0]


def test_what_is_not_played_as_it_stands_has_a_reason_and_is_still_in_a_page(trying):
    there = {step.text for page in trying.PAGES for step in trying.steps((ROOT / page).read_text(encoding="utf-8"))}
    for command, instead in trying.INSTEAD.items():
        assert command in there, f"{command} is in no page any more: take it out of docs/try_commands.py"
        assert instead.why


def test_a_command_that_waits_is_visited_and_ended_by_ctrl_c(trying, tmp_path):
    shell = trying.Shell(tmp_path, trying.outside())
    code, printed = shell.run("python3 -um http.server --bind 127.0.0.1 0", waits=True)
    assert (code, '"GET / HTTP/1.1" 200' in printed, "Keyboard interrupt" in printed) == (0, True, True)
    shell.close()


def test_the_scenario_that_readme_shows_is_the_one_that_it_names():
    shown = re.search(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert shown
    assert shown[1] == (ROOT / "examples" / "small-band.toml").read_text(encoding="utf-8")

"""A folder of a stranger: no Python file in it is run, whatever it is called, wherever processes are started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from levels import extended

pytestmark = pytest.mark.slow

INSTALLED = ["numpy", "torch", "polars", "scipy", "simpy", "pydantic", "typer", "rich", "sklearn", "matplotlib",
             "sitecustomize", "usercustomize", "click", "cloudpickle", "msgpack", "cycler", "PIL"]
# what `python -m` itself imports with the current folder first, before any of our code: nobody but -P can help there
PYTHONS_OWN = {"runpy", "importlib", "pkgutil"}
NETSIM = Path(sys.executable).with_name("netsim")
SWEEP = 'scenario = "tiny"\nseeds = 2\nlearning = false\n'


def plant(folder: Path, names: set[str]) -> None:
    note = str(folder / "ran")
    for name in names:
        (folder / f"{name}.py").write_text(
            f"open({note!r}, 'a', encoding='utf-8').write({name!r} + ' ')\nraise ImportError('hostile')\n",
            encoding="utf-8")


def ran(folder: Path) -> str:
    file = folder / "ran"
    return file.read_text(encoding="utf-8") if file.exists() else ""


SWEPT = ["sweep", "two.toml", "--workers", "2"]
TRAINED = ["run", "quickstart", "--workers", "2", "--set", "end.rounds=1", "--set", "learning.local_iterations=1"]


@pytest.mark.parametrize(("command", "words"), [
    ("module", SWEPT), *(pytest.param(command, words, marks=pytest.mark.extended) for command, words in (
        ("module", TRAINED), ("module", ["reproduce", "--quick", "table2", "--out", "out"]),
        ("module", ["run", "tiny"]), ("module", ["check", "paper"]), ("module", ["allocate", "tiny"]),
        ("script", SWEPT), ("script", TRAINED),      # how it was started matters to its workers, not to what it does
    ))], ids=lambda words: words if isinstance(words, str) else words[0])
def test_no_file_of_the_current_folder_is_run(tmp_path: Path, command: str, words: list[str]) -> None:
    names = {*sys.stdlib_module_names, *INSTALLED}
    plant(tmp_path, names if command == "script" else names - PYTHONS_OWN)
    (tmp_path / "two.toml").write_text(SWEEP, encoding="utf-8")
    start = [str(NETSIM)] if command == "script" else [sys.executable, "-m", "netsim"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([*start, *words], cwd=tmp_path, env=plain, capture_output=True, text=True, check=False,
                          timeout=300)
    assert ran(tmp_path) == ""
    assert done.returncode == 0, done.stderr


def test_workers_of_a_script_find_what_the_script_finds(tmp_path: Path) -> None:
    """What lies beside a script is the user's own: it is imported, in workers too, but not what lies around."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "beside.py").write_text("def twice(number):\n    return 2 * number\n", encoding="utf-8")
    (tmp_path / "own" / "script.py").write_text(
        "from netsim.executors.workers import Workers\nimport beside\n"
        'if __name__ == "__main__":\n'
        '    with Workers(1, start="spawn") as workers:\n        print(workers.submit(beside.twice, 21).result())\n',
        encoding="utf-8")
    plant(tmp_path, {"struct", "numpy", "socket"})
    done = subprocess.run([sys.executable, "own/script.py"], cwd=tmp_path, capture_output=True, text=True, check=False,
                          timeout=60)
    assert (done.stdout, ran(tmp_path)) == ("42\n", ""), done.stderr


# Figures: no matplotlibrc of the current folder is opened; it could have programs called, and did run code once.

RC = "figure.facecolor: red\ntext.usetex: True\nsavefig.dpi: 7\n"
WATCHED = """
import os, sys
def watch(event, arguments):
    if event == "open" and os.path.basename(str(arguments[0])) == "matplotlibrc":
        found.append(os.path.realpath(str(arguments[0])))
found, here = [], os.path.realpath("matplotlibrc")
sys.addaudithook(watch)
import atexit
atexit.register(lambda: print("drawn" if "matplotlib.figure" in sys.modules else "not drawn", here in found))
"""
COMMAND = "from netsim.cli import main\nmain()\n"
API = """
import netsim
run = netsim.simulate("tiny", learning=False)
for kind, round in (("gantt", 1), ("breakdown", None), ("energy", None), ("band", None)):
    run.figure(kind, round).savefig(f"{kind}.png")
run._repr_html_()
"""


@pytest.mark.parametrize("words", [
    ["allocate", "tiny", "--figure", "x.png"], ["breakdown", "run", "--figure", "x.svg"], [],
    *extended([["data", "digits", "--partition", "iid", "--figure", "x.pdf"], ["sweep", "two.toml", "--report"],
               ["reproduce", "--quick", "fig5", "--out", "out"], ["reproduce", "--quick", "fig14", "--out", "out"]]),
], ids=lambda words: words[0] + words[2][:4] if words else "python")
def test_figures_do_not_obey_the_current_folder(tmp_path: Path, words: list[str]) -> None:
    from netsim import simulate

    if "run" in words:
        simulate("tiny", tmp_path / "run", learning=False)
    (tmp_path / "matplotlibrc").write_text(RC, encoding="utf-8")
    (tmp_path / "two.toml").write_text(SWEEP, encoding="utf-8")
    done = subprocess.run([sys.executable, "-P", "-c", WATCHED + (COMMAND if words else API), *words], cwd=tmp_path,
                          capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "drawn False"


def test_matplotlib_is_imported_in_one_place() -> None:
    """At run time: names for type checkers alone are no imports."""
    import ast

    import netsim.base.figures as pictures

    root = Path(pictures.__file__).parents[1]

    def imports(node: ast.AST) -> bool:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return False
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [
            node.module or ""] if isinstance(node, ast.ImportFrom) else []
        return any(name.split(".")[0] == "matplotlib" for name in names) or any(
            imports(child) for child in ast.iter_child_nodes(node))

    found = {str(file.relative_to(root)) for file in root.rglob("*.py")
             if imports(ast.parse(file.read_text(encoding="utf-8")))}
    # all but the first only import what an existing figure needs
    assert found == {"base/figures.py", "report/figures.py", "calibration/page.py"}

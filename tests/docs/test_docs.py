"""The documentation does what it says: its blocks are run, its links lead somewhere, its reference is up to date.

In a page, lines of a ``console`` block that begin with ``$`` are commands (``netsim`` or ``python FILE``), and what
follows them must be part of their output; ``python`` blocks are run one after the other; a block that begins with a
comment like ``# my-cell.toml`` is saved under that name first. Each page has a folder of its own.
"""

from __future__ import annotations

import importlib
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from netsim.cli import main

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if path.parent.name != "reference")
FRONT = [DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md"]
TRIED_ELSEWHERE = {"own-selection.md": "tests/selection/test_own_selection.py", "sweeps.md": "below",
                   "reading-a-trace.md": "tests/analysis/test_guide.py", "tutorial.md": "docs/try_commands.py",
                   "skew.md": "tests/docs/test_gallery.py",
                   "calibration.md": "tests/calibration/test_calibration_guide.py"}
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def name(path: Path) -> str:
    return path.relative_to(DOCS).as_posix()


def page(path: Path) -> object:
    """A page as a parameter; the gallery repeats at full size what the guides do."""
    level = pytest.mark.extended if path.parent.name == "gallery" else pytest.mark.slow
    return pytest.param(path, marks=level, id=name(path))


@pytest.mark.parametrize("path", [page(path) for path in PAGES if path.name not in TRIED_ELSEWHERE])
def test_the_blocks_of_a_page_run(path, tmp_path, monkeypatch, capsys):
    if path.name == "flower.md":
        pytest.importorskip("flwr", reason="Flower is not installed: pip install 'netsim[flower]'")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    names: dict[str, object] = {}
    for kind, block in FENCE.findall(path.read_text(encoding="utf-8")):
        saved = re.match(r"# ([\w./-]+\.(?:py|toml|csv))\n", block)
        if saved:
            file = tmp_path / saved[1]
            file.parent.mkdir(exist_ok=True)
            file.write_text(block.removeprefix(saved[0]) if file.suffix == ".csv" else block, encoding="utf-8")
            importlib.invalidate_caches()
        elif kind == "python":
            exec(compile(block, name(path), "exec"), names)
        elif kind == "console":
            for command, expected in commands(block):
                hold_to(expected, command, printed_by(command, monkeypatch, capsys))
    for module in set(sys.modules) - before:
        if module.split(".")[0] == "mylab":
            del sys.modules[module]


@pytest.mark.slow
def test_the_sweep_of_the_guide_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = FENCE.findall((DOCS / "guides" / "sweeps.md").read_text(encoding="utf-8"))
    shorter = dict(blocks)["toml"].replace("seeds = 20", "seeds = 1").replace("end.rounds = 50", "end.rounds = 2")
    (tmp_path / "bandwidth.toml").write_text(shorter, encoding="utf-8")
    printed_by("netsim sweep bandwidth.toml --workers 1", monkeypatch, capsys)
    names: dict[str, object] = {}
    for block in (block for kind, block in blocks if kind == "python"):
        exec(block, names)
    assert names["table"].height == 3 * 3
    assert [case.label for case in names["found"].cases][-1] == "half, 10 MHz"
    printed_by("netsim report results/sweeps/bandwidth", monkeypatch, capsys)
    assert (tmp_path / "results/sweeps/bandwidth/tables/cases.tex").exists()


def commands(block: str) -> list[tuple[str, list[str]]]:
    """The commands of a block, each with the lines that it is said to print."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:].partition("  #")[0].strip(), []))
        elif line.strip():
            found[-1][1].append(line)
    return found


def printed_by(command: str, monkeypatch, capsys) -> str:
    """What a command prints; the exit code of a netsim command is 2 exactly when it says "error:"."""
    if command == "export PYTHONPATH=$PWD":
        return ""                                              # done for all pages above
    program, *words = command.split()
    if program == "python":
        capsys.readouterr()
        runpy.run_path(words[0], run_name="__main__")
        return capsys.readouterr().out
    assert program == "netsim", f"not a command that a page may give: {command}"
    monkeypatch.setattr(sys, "argv", [program, *words])
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    assert ended.value.code in (0, None, 2), command
    assert (ended.value.code == 2) == printed.err.startswith("error:"), f"{command}\n{printed.err}"
    return printed.out + printed.err


def hold_to(expected: list[str], command: str, printed: str) -> None:
    shown = re.sub(r"\s+", " ", printed)
    for line in expected:
        assert re.sub(r"\s+", " ", line).strip() in shown, f"{command} does not print: {line}\nbut:\n{printed}"


@pytest.mark.parametrize("path", [*PAGES, *FRONT], ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path} links to {target}"


def test_the_reference_is_what_the_program_says():
    pages = runpy.run_path(str(DOCS / "make_reference.py"))["pages"]()
    for file, text in pages.items():
        there = (DOCS / "reference" / file).read_text(encoding="utf-8")
        assert there == text, f"docs/reference/{file} is out of date: make reference"


def test_the_picture_of_the_layers_is_drawn_from_the_matrix():
    made = runpy.run_path(str(DOCS / "make_layers.py"))
    knows = made["matrix"]()
    assert made["FILE"].read_text(encoding="utf-8") == made["svg"](knows), "layers.svg is out of date: make reference"
    assert knows.keys() <= made["ROLES"].keys(), "a layer without a description in docs/make_layers.py"


def test_the_reference_knows_every_key_method_command_and_column():
    from netsim.allocation import METHODS as ALLOCATION
    from netsim.scenario.devices import Fleet, PopulationTable
    from netsim.scenario.learning import LearningTable
    from netsim.scenario.radio import Cell
    from netsim.selection.registry import METHODS as SELECTION
    from netsim.trace.schema import TABLES

    text = {path.stem: path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md")}
    for table in (Cell, PopulationTable, Fleet, LearningTable):
        assert all(f"| `{key}` |" in text["scenario"] for key in table.model_fields)
    assert all(f"| `{method}` |" in text["methods"] for method in (*ALLOCATION, *SELECTION))
    assert all(f"## netsim {command}\n" in text["commands"] for command in ("run", "allocate", "lab", "report"))
    assert all(f"`{column}`" in text["trace"] for columns in TABLES.values() for column in columns)


@pytest.mark.slow
def test_the_site_builds(tmp_path):
    pytest.importorskip("sphinx", reason="no Sphinx here: the site is not built")
    pytest.importorskip("furo", reason="no theme here: the site is not built")
    build = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(DOCS), str(tmp_path)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    front = (tmp_path / "index.html").read_text(encoding="utf-8")
    elsewhere = re.findall(r'(?:src|rel="stylesheet"[^>]*href)="(https?:[^"]+)"', front)
    assert elsewhere == []
    assert "<math" in (tmp_path / "background.html").read_text(encoding="utf-8")

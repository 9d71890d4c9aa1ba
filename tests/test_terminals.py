"""Terminals and pipes of all sorts: no locale, no reader that goes and no signal ends in a traceback."""

from __future__ import annotations

import ast
import codecs
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import commands
from levels import extended

import netsim as package
from netsim.cli.standard_streams import PLAIN, plain

pytestmark = pytest.mark.slow

ROOT = Path(package.__file__).parent.parent
BARE = {"LC_ALL": "C", "PYTHONUTF8": "0"}
SCENARIO = """base = "tiny"
description = "Ein Gerät, 5 µJ … mehr"
[[population]]
name = "node"
budget = "900000 µJ"
"""
SWEEP = 'scenario = "örtlich.toml"\nseeds = 2\nlearning = false\n[grid]\ncell.bandwidth = ["1 MHz", "2 MHz"]\n'


def netsim(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """A command on a terminal that knows nothing but ASCII."""
    return commands(**BARE).run(folder, *words)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("bare")
    (place / "örtlich.toml").write_text(SCENARIO, encoding="utf-8")
    (place / "sweep.toml").write_text(SWEEP, encoding="utf-8")
    done = netsim(place, "run", "örtlich.toml", "--out", "runs/one")
    assert done.returncode == 0, done.stderr
    return place


@pytest.mark.parametrize("words", [
    ["--help"], ["check", "örtlich.toml"], ["check", "örtlich.toml", "--toml"], ["breakdown", "runs/one"],
    ["export", "runs/one", "--format", "csv", "-o", "ü.csv", "--force"], ["sweep", "sweep.toml"],
    *extended([
        ["run", "--help"], ["run", "örtlich.toml", "--json", "--out", "zwei"],
        ["run", "quickstart", "--set", "end.rounds=2"],
        ["schema"], ["scenarios"], ["data", "digits", "--partition", "iid"],
        ["allocate", "örtlich.toml"], ["allocate", "örtlich.toml", "--figure", "Bild.png", "--force"],
        ["breakdown", "runs/one", "--round", "1"], ["breakdown", "runs/one", "--csv", "--by", "devices"],
        ["critical-path", "runs/one"], ["critical-path", "runs/one", "--json"],
        ["export", "runs/one", "--format", "perfetto", "-o", "ü.json", "--force"],
        ["report", "runs/one", "--force"], ["sweep", "sweep.toml", "--status"],
        ["reproduce", "--quick", "table2", "fig7", "--trials", "2", "--out", "Bücher"],
    ]),
], ids=" ".join)
def test_every_command_prints_without_utf8(folder: Path, words: list[str]) -> None:
    done = netsim(folder, *words)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    known = done.stdout.replace("örtlich".encode(), b"").replace("ü".encode(), b"")
    assert known.replace("Bücher".encode(), b"").isascii()


@pytest.mark.parametrize("words", [
    ["run", "nichtda-ü.toml"], ["check", "tiny", "--set", "cell.bandwidth=5 µJ"], ["run", "ü"]])
def test_every_error_too(folder: Path, words: list[str]) -> None:
    done = netsim(folder, *words)
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: ")
    assert b"Traceback" not in done.stderr


def test_units_fall_back_to_ascii(folder: Path) -> None:
    shown = netsim(folder, "check", "örtlich.toml", "--toml").stdout
    assert b'budget = "900000 uJ"' in shown
    assert b"5 uJ ~ mehr" in shown


def test_every_replacement_is_one_ascii_character_for_one() -> None:
    for character, nearest in PLAIN.items():
        assert isinstance(nearest, str)
        assert len(chr(character)) == len(nearest) == 1
        assert nearest.isascii()
    codecs.register_error("netsim-plain", plain)
    assert "12 µs ┃ 中 \udce4".encode("ascii", errors="netsim-plain") == b"12 us | \\u4e2d \xe4"


def files() -> Iterator[Path]:
    for part in ("netsim", "models", "lessons", "docs"):
        yield from sorted((ROOT / part).rglob("*.py"))


def test_every_text_file_is_opened_with_its_encoding() -> None:
    """Without one, Python takes the terminal's, and a scenario that was written here is not read there."""
    missing = []
    for path in files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _opens_text(node) and not any(w.arg == "encoding" for w in node.keywords):
                missing.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert missing == []


def _opens_text(call: ast.Call) -> bool:
    function = call.func
    name = getattr(function, "attr", getattr(function, "id", ""))
    if name in ("read_text", "write_text"):
        # of a path; netsim.base.files has a function of that name, and a distribution reads its own files
        return isinstance(function, ast.Attribute) and getattr(function.value, "id", "") != "distribution"
    owner = getattr(function, "value", None)
    if name != "open" or getattr(owner, "attr", getattr(owner, "id", "")) in (
            "os", "gzip", "Image", "webbrowser", "browser", "place", "archive"):
        return False
    given = [word.value for word in call.keywords if word.arg == "mode"]
    given += call.args[:1] if isinstance(function, ast.Attribute) else call.args[1:2]
    modes = [value.value for value in given if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    return not any("b" in mode for mode in modes)


def piped(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """A line of the shell; the exit code is that of the first command in it."""
    line = command.replace("netsim", f"{sys.executable} -m netsim")
    return subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=folder, capture_output=True, text=True,
                          timeout=300, check=False)


@pytest.mark.parametrize("end", ["2>&1 | head -1", ">&- 2>&-", *extended(
    ["| head -1", "| true", "2>&1 | true", "--json | true", ">&-"])])
def test_a_reader_that_goes_ends_the_printing_alone(tmp_path: Path, end: str) -> None:
    done = piped(tmp_path, f"netsim run tiny --set end.rounds=300 --out run {end}")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert json.loads((tmp_path / "run/summary.json").read_text(encoding="utf-8"))["rounds"] == 300


@pytest.mark.extended
def test_a_sweep_and_a_reproduction_go_on_without_a_reader(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text('scenario = "tiny"\nseeds = 2\nlearning = false\n', encoding="utf-8")
    assert piped(tmp_path, "netsim sweep two.toml 2>&1 | true").returncode == 0
    assert (tmp_path / "results/sweeps/two/table.parquet").exists()
    assert piped(tmp_path, "netsim reproduce --quick table2 fig7 --trials 2 --out out | head -1").returncode == 0
    assert (tmp_path / "out/fig7/numbers.json").exists()


def test_a_full_disk_behind_the_output_is_told_once(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    done = piped(tmp_path, "netsim schema > /dev/full")
    assert (done.returncode, done.stderr.count("No space left on device")) == (2, 1)
    assert "Exception ignored" not in done.stderr


def test_progress_is_no_part_of_the_result(tmp_path: Path) -> None:
    done = commands().run(tmp_path, "run", "tiny")
    assert b"round 3/3" in done.stderr
    assert b"round 3/3" not in done.stdout


def test_nothing_to_resume(tmp_path: Path) -> None:
    first = netsim(tmp_path, "run", "tiny", "--out", "run", "--resume")
    assert first.returncode == 0
    assert b"nothing to resume in run; starting a new run" in first.stderr
    again = netsim(tmp_path, "run", "tiny", "--out", "run", "--resume")
    assert b"nothing to resume" not in again.stderr


LONG = {"run": ["run", "tiny", "--set", "end.rounds=100000000"],
        "learning": ["run", "quickstart", "--workers", "2", "--set", "end.rounds=100000"],
        "sweep": ["sweep", "long.toml", "--workers", "2"]}
SIGNALS = {signal.SIGTERM: ("terminated", 143), signal.SIGINT: ("interrupted", 130)}


@pytest.mark.parametrize("case", [
    ("run", signal.SIGTERM), ("learning", signal.SIGINT), ("sweep", signal.SIGTERM),
    *extended([("run", signal.SIGINT), ("learning", signal.SIGTERM), ("sweep", signal.SIGINT)]),
], ids=lambda case: f"{case[0]}-{case[1].name}")
def test_a_signal_says_how_to_go_on(tmp_path: Path, case: tuple[str, signal.Signals]) -> None:
    words, kind, (word, code) = LONG[case[0]], case[1], SIGNALS[case[1]]
    (tmp_path / "long.toml").write_text(
        'scenario = "tiny"\nseeds = 2\nlearning = false\nset.end.rounds = 100000000\n', encoding="utf-8")
    with subprocess.Popen([sys.executable, "-m", "netsim", *words], cwd=tmp_path, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        until = time.monotonic() + 60
        while not list(tmp_path.glob("results/**/run.json")) and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(0.5)
        os.killpg(process.pid, kind)          # workers too, as a terminal or a cluster's scheduler does
        process.wait(30)
        said = process.stderr.read()
    assert process.returncode == code, said
    assert "Traceback" not in said
    found = re.search(rf"{word}; resume with:  netsim (.*)", said)
    assert found, said
    assert found[1].startswith(words[0])
    assert ("--resume" in found[1]) == (words[0] == "run")


@pytest.mark.parametrize("command", ["export RUN --format csv", *extended(["report RUN", "favor-train tiny"])])
@pytest.mark.parametrize("place", [".", "..", "folder", "pipe", "/dev/null"])
def test_no_file_to_write(folder: Path, tmp_path: Path, command: str, place: str) -> None:
    words = [word.replace("RUN", str(folder / "runs" / "one")) for word in command.split()]
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    done = netsim(tmp_path, *words, "-o", place, "--force")
    assert done.returncode == 2
    assert re.fullmatch(rb"error: .*: cannot be written \(found .*\)(\. .*)?\n", done.stderr), done.stderr


def test_want_of_memory_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    from netsim import cli, scenario

    def hungry(*words: object) -> None:
        np.empty(1 << 50)

    monkeypatch.setattr(scenario, "load_scenario", hungry)
    monkeypatch.setattr(sys, "argv", ["netsim", "check", "tiny"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert re.fullmatch(r"error: out of memory \(Unable to allocate .*\); use fewer devices.*\n", said)

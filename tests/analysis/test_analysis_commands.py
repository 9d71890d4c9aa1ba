"""breakdown, critical-path, export and report on the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import polars as pl
import pytest
from small_runs import sign

from netsim.cli import main
from netsim.run import Run

Netsim = Callable[..., tuple[int, str, str]]


@pytest.fixture
def netsim(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Netsim:
    """Run a command: exit code, standard output, standard error."""
    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["netsim", *map(str, words)])
        code: object = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        printed = capsys.readouterr()
        assert isinstance(code, int)
        return code, printed.out, printed.err
    return run


def test_breakdown_shows_the_run_its_rounds_and_its_devices(netsim: Netsim, two: Run) -> None:
    code, out, _ = netsim("breakdown", two.path)
    assert code == 0
    for words in ("11 s in 2 rounds", "27.3%  of a device's time", "phone 1 by 3 s", "compute 6 J, upload 2.5 J"):
        assert words in out


def test_breakdown_as_json_and_csv_equals_the_python_api(netsim: Netsim, two: Run) -> None:
    assert json.loads(netsim("breakdown", two.path, "--json")[1]) == two.breakdown().as_json()
    for table in ("rounds", "devices", "shares"):
        out = netsim("breakdown", two.path, "--csv", "--by", table)[1]
        assert pl.read_csv(StringIO(out)).equals(pl.read_csv(StringIO(getattr(two.breakdown(), table).write_csv())))
    assert json.loads(netsim("breakdown", two.path, "--round", 2, "--json")[1]) == two.breakdown().round(2).to_dicts()
    assert "phone 1" in netsim("breakdown", two.path, "--round", 2, "--device", 1)[1]


def test_critical_path_says_what_would_shorten_the_run(netsim: Netsim, two: Run) -> None:
    code, out, _ = netsim("critical-path", two.path)
    assert code == 0
    assert "critical path: 11 s" in out
    assert "phone 0's upload is on it in 50% of the rounds" in out
    found = json.loads(netsim("critical-path", two.path, "--json")[1])
    assert found["length_s"] == 11.0
    assert [step["name"] for step in found["steps"]][-1] == "aggregate"
    assert netsim("critical-path", two.path, "--csv")[1].startswith("seq,round,name,device")


def test_figures_are_drawn_in_the_format_of_their_name(netsim: Netsim, two: Run, tmp_path: Path) -> None:
    assert netsim("breakdown", two.path, "--figure", tmp_path / "b.png")[0] == 0
    assert netsim("breakdown", two.path, "--round", 1, "--figure", tmp_path / "g.svg")[0] == 0
    assert (tmp_path / "b.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "g.svg").read_text()
    code, _, err = netsim("breakdown", two.path, "--figure", tmp_path / "b.pgn")
    assert (code, "b.pgn: unknown name" in err) == (2, True)


@pytest.mark.parametrize("words", [
    ("export", "RUN", "--format", "csv", "-o", "FILE"),
    ("report", "RUN", "-o", "FILE"),
    ("report", "RUN", "RUN", "-o", "FILE"),
    ("breakdown", "RUN", "--figure", "FILE"),
])
def test_an_existing_file_is_kept_without_force(
    netsim: Netsim, two: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    file = tmp_path / "out.svg"
    file.write_text("precious")
    command = [{"RUN": two.path, "FILE": file}.get(word, word) for word in words]
    code, _, err = netsim(*command)
    assert (code, file.read_text()) == (2, "precious")
    assert "--force" in err
    assert netsim(*command, "--force")[0] == 0
    assert file.read_text() != "precious"


def test_a_report_lies_in_the_run_directory_and_is_not_overwritten_there(netsim: Netsim, two: Run) -> None:
    assert netsim("report", two.path) == (0, f"report: {two.path / 'report.html'}\n", "")
    assert netsim("report", two.path)[0] == 2
    assert netsim("report", two.path, "--force")[0] == 0
    assert netsim("report", two.path, two.path) == (0, f"report: {two.path / 'comparison.html'}\n", "")


@pytest.mark.parametrize(("words", "said"), [
    (("breakdown", "nowhere"), "nowhere: "),
    (("breakdown", "RUN", "--round", "9"), "round: is out of range (found 9; expected 1 to 2)"),
    (("breakdown", "RUN", "--device", "9"), "device: is out of range (found 9; expected 0 to 2)"),
    (("breakdown", "RUN", "--json", "--csv"), "--json: contradicts"),
    (("export", "RUN", "--format", "perfeto", "-o", "x"), 'Did you mean "perfetto"'),
    (("export", "RUN", "--format", "csv", "-o", "no/such/folder/x"), "expected a folder to write into"),
    (("report", "RUN", "nowhere"), "nowhere: "),
])
def test_mistakes_end_in_one_message_and_code_2(
    netsim: Netsim, two: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = netsim(*(two.path if word == "RUN" else word for word in words))
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_names_in_tables_are_not_markup(netsim: Netsim, two: Run) -> None:
    devices = pl.read_parquet(two.path / "devices.parquet")
    devices.with_columns(name=pl.lit("[bold]x[/bold]")).write_parquet(two.path / "devices.parquet")
    sign(two.path)
    assert "[bold]x[/bold]" in netsim("breakdown", two.path)[1]

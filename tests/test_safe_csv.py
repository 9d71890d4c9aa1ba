"""Names and texts in CSV files: no cell that a spreadsheet would run as a formula."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import polars as pl
import pytest
from commands import commands

from netsim import load_run, load_scenario, simulate
from netsim.analysis.export import export
from netsim.base.files import FORMULA_MARKS, safe_cell, safe_table
from netsim.paper.report import _csv

pytestmark = pytest.mark.slow

HOSTILE = [f"{mark}cmd|' /C calc'!A0" for mark in FORMULA_MARKS]


def test_every_cell_that_a_spreadsheet_would_run_is_escaped() -> None:
    frame = pl.DataFrame({"text": [*HOSTILE, "phone 1", "a=b", "", None], "number": [-1.5] * (len(HOSTILE) + 4)})
    safe = safe_table(frame)
    assert safe["text"].to_list() == [*(f"'{text}" for text in HOSTILE), "phone 1", "a=b", "", None]
    assert safe["number"].equals(frame["number"])
    assert [safe_cell(text) for text in HOSTILE] == safe["text"].to_list()[: len(HOSTILE)]
    assert [safe_cell(value) for value in (-1, -1.5, None, "a-1")] == [-1, -1.5, None, "a-1"]
    assert safe_table(pl.DataFrame({"=x": [1]})).columns == ["'=x"]


def cells(text: str) -> list[str]:
    return [cell for row in csv.reader(io.StringIO(text)) for cell in row]


def test_every_csv_that_is_written(tmp_path: Path) -> None:
    names = [name for name in HOSTILE if name.strip() == name]      # the others do not come through a CSV file
    (tmp_path / "fleet.csv").write_text("name\n" + "".join(f'"{name}"\n' for name in names), encoding="utf-8")
    (tmp_path / "own.toml").write_text(
        'base = "tiny"\n[[population]]\nname = "node"\ndevices = "fleet.csv"\n[selection]\ncohort = 3\n',
        encoding="utf-8")
    simulate(load_scenario(tmp_path / "own.toml"), tmp_path / "run")
    export(load_run(tmp_path / "run"), "csv", tmp_path / "x.csv")
    written = [(tmp_path / "x.csv").read_text(encoding="utf-8"),
               _csv([{"a": -1.5, "b": "=1+1", "@c": "-x"}, {"a": 2, "b": "plain"}])]
    for words in (["breakdown", "run", "--csv"], ["breakdown", "run", "--csv", "--by", "devices"],
                  ["breakdown", "run", "--csv", "--by", "shares"], ["critical-path", "run", "--csv"]):
        done = commands().run(tmp_path, *words)
        assert done.returncode == 0, done.stderr
        written.append(done.stdout.decode())
    for text in written:
        run = [cell for cell in cells(text) if cell.startswith(FORMULA_MARKS) and not _number(cell)]
        assert run == []
    assert any("cmd|" in text for text in written[2:])
    assert "-1.5" in cells(written[1])


def _number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True

"""Every row of the table is refused with its code and key, in the words of the golden file; see refusals.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from refusals import WORDINGS, refused, rows

from netsim.base.error_codes import ERROR_CODES

ROWS = rows()
SAID = json.loads(WORDINGS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ROWS)
def test_is_refused_with_its_code_and_key(name: str, tmp_path: Path) -> None:
    provoke, code, key = ROWS[name]
    error, text = refused(provoke, tmp_path)
    assert (error.code, error.key.replace(str(tmp_path), "FOLDER")) == (code, key), text
    assert code in ERROR_CODES
    assert text == SAID[name], "if this wording is meant: python tests/refusals/refusals.py"


def test_the_wordings_are_those_of_the_table() -> None:
    assert SAID.keys() == ROWS.keys()

"""The example of docs/guides/own-selection.md works as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from netsim.base.errors import InputError
from netsim.selection import check_choice, make_selection

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "own-selection.md"
NAME = "mylab.nearest:BestChannels"


@pytest.fixture
def installed(monkeypatch):
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL).group(1)
    assert len(code.partition("class ")[2].splitlines()) <= 10
    module = ModuleType("mylab.nearest")
    monkeypatch.setitem(sys.modules, "mylab", ModuleType("mylab"))
    monkeypatch.setitem(sys.modules, "mylab.nearest", module)
    exec(compile(code, PAGE.name, "exec"), module.__dict__)


@pytest.mark.usefixtures("installed")
def test_the_example(view, rng):
    cell = view(round=6, gain=[1, 6, 5, 4, 3, 2], available=[1, 1, 0, 1, 1, 1], last_round=[1, 5, 1, 1, 1, 1])
    assert check_choice(make_selection(NAME, {})(cell, rng), cell, NAME).tolist() == [1, 3]
    assert check_choice(make_selection(NAME, {"pause": 3})(cell, rng), cell, NAME).tolist() == [3, 4]
    nobody_rested = make_selection(NAME, {"pause": 9})(cell, rng)
    assert check_choice(nobody_rested, cell, NAME).tolist() == [1, 3]
    with pytest.raises(InputError, match='selection.pause: has the wrong type .found "long"; expected a whole number'):
        make_selection(NAME, {"pause": "long"})

"""The examples in docstrings do what they say."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import netsim

PACKAGE = Path(netsim.__file__).parent
WITH_EXAMPLES = [file.relative_to(PACKAGE.parent) for file in sorted(PACKAGE.rglob("*.py"))
                 if ">>>" in file.read_text()]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=str)
def test_examples_in_docstrings(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    found = doctest.testmod(import_module(name))
    assert found.attempted
    assert not found.failed

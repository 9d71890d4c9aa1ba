"""The lab in a stranger's folder: marimo's configuration there, and above it, is not read, and no code of it is run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from chromium import Browser, needs_chromium

pytest.importorskip("marimo", reason="no marimo here: the lab is not tried")

pytestmark = pytest.mark.slow
SECRET = "what-only-this-file-says"
MODULES = ("polars", "numpy", "netsim", "scipy", "altair", "markdown", "pandas", "sitecustomize")


def plant(folder: Path, note: Path) -> None:
    """Every configuration of marimo that could import code or show a file."""
    code = folder / "pp"
    code.mkdir(parents=True)
    for name in MODULES:
        (code / f"{name}.py").write_text(
            f"open({str(note)!r}, 'a').write({name!r} + ' ')\nraise ImportError('hostile')\n", encoding="utf-8")
    secret = folder / "secret.css"
    secret.write_text(f"/* {SECRET} */", encoding="utf-8")
    tables = (f'runtime.pythonpath = ["{code}"]\ndisplay.custom_css = ["{secret}"]\ndisplay.theme = "dark"\n'
              f'runtime.dotenv = ["{folder / "own.env"}"]\n')
    (folder / ".marimo.toml").write_text(tables, encoding="utf-8")
    (folder / "pyproject.toml").write_text(f"[tool.marimo]\n{tables}", encoding="utf-8")
    for name in (".env", "own.env"):
        (folder / name).write_text(f"HOSTILE={SECRET}\n", encoding="utf-8")


@contextmanager
def lab(folder: Path) -> Iterator[str]:
    own = {**os.environ, "PYTHONUNBUFFERED": "1", "HOME": str(folder / "home"), "PYTHONSAFEPATH": "1"}
    with subprocess.Popen([sys.executable, "-m", "netsim", "lab", "--no-browser", "--port", "22700"], cwd=folder,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=own) as server:
        found: Any = re.search(r"http://\S+", server.stdout.readline())
        try:
            yield found[0]
        finally:
            server.terminate()
            server.wait(20)


@needs_chromium
@pytest.mark.parametrize("above", [False, True], ids=["here", "above"])
def test_no_configuration_is_read_and_no_code_is_run(tmp_path: Path, above: bool) -> None:
    note = tmp_path / "ran"
    plant(tmp_path / "stranger", note)
    folder = tmp_path / "stranger" / "below" if above else tmp_path / "stranger"
    folder.mkdir(exist_ok=True)
    with lab(folder) as address, Browser() as browser:
        page = browser.open(f"{address}lesson-1/")
        page.wait_for("deep('svg[role=img]').length")
        shown = page.evaluate("document.documentElement.outerHTML")
        assert SECRET not in shown
        assert "dark" not in page.evaluate("document.documentElement.className + document.body.className")
    assert not note.exists(), note.read_text(encoding="utf-8")

"""The declared dependencies admit no version with a known hole or a warning, and those that netsim is tested with."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DECLARED = {requirement.name: requirement.specifier for requirement in map(Requirement, PROJECT["dependencies"])}


@pytest.mark.parametrize(("name", "excluded"), [
    ("matplotlib", ["3.8.4", "3.10.7", "3.10.8"]),                  # run code of a matplotlibrc
    ("click", ["8.5.0", "8.5.1", "9.0"]),                           # deprecate, then remove what typer imports
    ("typer", ["0.12.4", "0.13.0", "0.15.1", "0.16.0", "0.19.0", "0.19.1"]),        # do not fit click 8.2 and later
])
def test_versions_with_holes_or_warnings_are_excluded(name, excluded):
    assert [number for number in excluded if DECLARED[name].contains(number)] == []


@pytest.mark.parametrize(("name", "admitted"), [
    ("matplotlib", ["3.10.9", "3.11.0"]), ("click", ["8.1.8", "8.2.1", "8.4.9"]),
    ("typer", ["0.12.5", "0.20.0", "0.26.0"])])
def test_versions_that_work_are_admitted(name, admitted):
    assert [number for number in admitted if not DECLARED[name].contains(number)] == []


@pytest.mark.parametrize("name", DECLARED)
def test_the_installed_version_is_within_its_bounds(name):
    assert DECLARED[name].contains(version(name), prereleases=True)


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["run", "tiny", "--out", "run"]])
def test_the_installed_versions_warn_of_nothing(words, tmp_path):
    answer = subprocess.run([sys.executable, "-W", "error::DeprecationWarning", "-m", "netsim", *words],
                            cwd=tmp_path, capture_output=True, check=False)
    assert answer.returncode == 0, answer.stderr.decode()
    assert b"Warning" not in answer.stderr

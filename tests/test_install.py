"""The wheel, built and installed in folders whose names have spaces; its command simulates without the source."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
IN_WHEEL = ("netsim", "models", "scenarios", "lessons")


def call(*words: object, cwd: Path) -> str:
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True, check=False,
                          env={**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.extended
def test_a_wheel_runs_from_a_path_with_spaces(tmp_path: Path) -> None:
    pytest.importorskip("pip")
    source, wheels, place = (tmp_path / name for name in ("my source", "my wheels", "my programs"))
    for name in IN_WHEEL:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source / name)
    call(sys.executable, "-m", "pip", "wheel", source, "--no-deps", "--no-build-isolation", "-w", wheels, cwd=tmp_path)
    wheel = next(wheels.glob("*.whl"))
    venv.create(place, with_pip=False)
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    call(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", wheel, cwd=tmp_path)
    packages = Path(call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip())
    known = {entry for entry in sys.path if "site-packages" in entry} | {sysconfig.get_path("purelib")}
    (packages / "dependencies.pth").write_text("\n".join(sorted(known)))        # of the environment of this test
    assert str(place) in call(python, "-c", "import netsim; print(netsim.__file__)", cwd=tmp_path)
    printed = call(python.with_name("netsim" + python.suffix), "run", "tiny", "--out", tmp_path / "my run", "--json",
                   cwd=tmp_path)
    assert json.loads(printed)["rounds"] == 3

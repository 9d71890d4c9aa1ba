"""A contributor's five additions, as CONTRIBUTING.md describes them, in a copy of the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.extended

ROOT = Path(__file__).parents[2]
METHOD = '''"""Equal shares of a band with a guard of two per cent."""

from dataclasses import replace

from netsim.allocation.plan import Plan
from netsim.allocation.problem import Problem
from netsim.allocation.sao import equal


def solve(problem: Problem) -> Plan:
    """Return the plan of `equal` in 98 per cent of the band; one device alone needs no guard."""
    share = 0.98 if len(problem) > 1 else 1.0
    return equal(replace(problem, bandwidth_hz=share * problem.bandwidth_hz))
'''
SELECTION = '''"""The devices with the strongest channels."""

import numpy as np

from netsim.selection.method import Choice, Method, highest
from netsim.selection.view import View


class Strongest(Method):
    """Take the S available devices with the highest gains."""

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        """Return the cohort."""
        return Choice(highest(view.gain, np.flatnonzero(view.available), view.cohort_size))
'''
PATH_LOSS = '''class TwoRay(Model):
    """Mean path loss over flat ground: 40 log10(distance in m) - 20 log10(height * height_device)."""

    model: Literal["two-ray"]
    height: Annotated[Length, key("height of the base station")]
    device_height: Annotated[Length, key("height of a device")]


'''
CHART = '''def waiting(run: Run, axes: Axes) -> None:
    """Draw the mean waiting time of each round."""
    rounds = run.breakdown().rounds
    axes.plot(rounds["round"], rounds["wait_s"], color=COLOURS["wait"])
    axes.set_xlabel("round")
    axes.set_ylabel("mean wait (s)")


'''
# file, a text in it, and the text that comes before it or after it
BEFORE = (
    ("netsim/scenario/radio.py", "class OwnPathLoss(", PATH_LOSS),
    ("netsim/scenario/radio.py", "    | Annotated[OwnPathLoss, Tag(", '    | Annotated[TwoRay, Tag("two-ray")]\n'),
    ("netsim/devices/link_model.py", "def loss_db(",
     "def two_ray(distance_m: Floats, height: float, device_height: float) -> Floats:\n"
     "    return np.asarray(40.0 * np.log10(distance_m) - 20.0 * np.log10(height * device_height))\n\n\n"),
    ("netsim/report/figures.py", "FIGURES: dict", CHART),
)
AFTER = (
    ("netsim/allocation/methods.py", 'METHODS = Registry("allocation method", "allocation.method", {\n',
     '    "guarded": Solver("netsim.allocation.guarded:solve", "equal shares of 98 % of the band"),\n'),
    ("netsim/selection/registry.py", 'METHODS = Registry("selection method", "selection.method", {\n',
     '    "strongest": Entry("netsim.selection.strongest:Strongest", "the strongest channels"),\n'),
    ("netsim/devices/link_model.py", 'PATH_LOSSES = Registry("path loss", "cell.path_loss.model", {\n',
     '    "two-ray": Entry("netsim.devices.link_model:two_ray", "reflection on flat ground"),\n'),
    ("netsim/report/figures.py", "FIGURES: dict[str, Callable[..., None]] = {\n", '    "waiting": waiting,\n'),
    ("docs/make_reference.py", '"FreeSpace": "cell.path_loss, model free-space",',
     ' "TwoRay": "cell.path_loss, model two-ray",'),
    ("netsim/server/job_recording.py", '"outcome": outcome, "staleness": version - jobs.version,',
     ' "late_s": v["ended_at"] - jobs.began - v["compute_s"] - v["upload_s"],'),
    ("netsim/server/job_recording.py", '"t0": now, "t1": now,', ' "late_s": 0.0,'),
    ("netsim/trace/schema.py", '"outcome": "s", "staleness": "i"', ', "late_s": "d"'),
    ("netsim/trace/schema.py", "    staleness  number of aggregations between its start and its end\n",
     "    late_s     seconds between start and end without work\n"),
)
USE = '''
import sys
from netsim import load_scenario, simulate
cell = {"model": "two-ray", "height": "25 m", "device_height": "1.5 m"}
run = simulate(load_scenario("tiny", {"cell.path_loss": cell, "allocation.method": "guarded",
                                      "selection.method": "strongest"}), learning=False)
assert run.jobs["late_s"].min() >= -1e-12, run.jobs
run.figure("waiting").savefig(sys.argv[1])
print(run.rounds.height)
'''


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The repository as it is installed: models, scenarios and lessons are parts of the package."""
    place = tmp_path / "copy"
    ignored = shutil.ignore_patterns("__pycache__", ".venv", "results", ".git", "build", "*.egg-info", "images")
    shutil.copytree(ROOT, place, ignore=ignored)
    (place / "docs" / "images").mkdir()
    shutil.copy(ROOT / "docs" / "images" / "layers.svg", place / "docs" / "images")
    for part in ("models", "scenarios", "lessons"):
        (place / "netsim" / part).symlink_to(place / part)
    return place


def python(place: Path, *words: object) -> str:
    """What a command of Python in the copy prints; it must succeed."""
    done = subprocess.run(
        [sys.executable, *map(str, words)], cwd=place, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def replaced(place: Path, file: str, old: str, new: str) -> None:
    text = (place / file).read_text()
    assert text.count(old) == 1, f"{file}: CONTRIBUTING.md and this test name a text that is gone: {old!r}"
    (place / file).write_text(text.replace(old, new))


def test_five_additions(copy: Path) -> None:
    (copy / "netsim/allocation/guarded.py").write_text(METHOD)
    (copy / "netsim/selection/strongest.py").write_text(SELECTION)
    for file, text, addition in BEFORE:
        replaced(copy, file, text, addition + text)
    for file, text, addition in AFTER:
        replaced(copy, file, text, text + addition)
    assert python(copy, "-c", "import netsim; print(netsim.__file__)").startswith(str(copy))
    assert python(copy, "-c", USE, copy / "waiting.png") == "3\n"
    assert (copy / "waiting.png").stat().st_size > 5_000
    python(copy, "docs/make_reference.py")
    assert "late_s" in (copy / "docs/reference/trace.md").read_text()
    assert "model two-ray" in (copy / "docs/reference/scenario.md").read_text()
    tests = ("tests/allocation/test_every_allocation_method.py", "tests/selection/test_every_method.py",
             "tests/report/test_figures.py", "tests/docs/test_docs.py", "tests/test_layers.py")
    chosen = "guarded or strongest or waiting or the_reference or who_knows_whom"
    said = python(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, "-k", chosen)
    assert "failed" not in said


def test_what_is_forgotten_is_told(copy: Path) -> None:
    """A column without values, and a table without a place in the reference: one sentence each."""
    replaced(copy, "netsim/trace/schema.py", '"staleness": "i"', '"staleness": "i", "late_s": "d"')
    replaced(copy, "docs/make_reference.py", '"FreeSpace": "cell.path_loss, model free-space", ', "")
    for words, told in (
        (("-c", "from netsim import simulate; simulate('tiny', learning=False)"), "jobs without the columns late_s"),
        (("docs/make_reference.py",), "add FreeSpace to TABLES"),
    ):
        with pytest.raises(AssertionError, match=told):
            python(copy, *words)

"""A scenario runs only code of packages that are made for netsim, or that the user allows."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from packages import METHOD, install, netsim

from netsim import load_scenario, simulate
from netsim.base.errors import InputError
from netsim.base.imports import check_made_for_netsim
from netsim.learning.favor_agent import policy_for
from netsim.learning.local_training import open_trainer
from netsim.learning.registries import upload_bits
from netsim.sample_problem import compare_methods, sample_problem
from netsim.validation import validate

pytestmark = pytest.mark.slow

OWN = "allocation.method=mylab.methods:solve"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    return folder


@contextmanager
def import_refused(key: str = "", why: str = "", code: str = "import-refused") -> Iterator[None]:
    """Code is not imported, for a reason that the hint begins with."""
    with pytest.raises(InputError) as error:
        yield
    assert error.value.code == code
    assert error.value.key == (key or error.value.key)
    assert why in error.value.hint
    assert ("--allow-import" in error.value.hint) == (code == "import-refused")


def refused(done: subprocess.CompletedProcess[str]) -> bool:
    """One sentence that says how to allow it, and nothing else."""
    return (done.returncode == 2 and done.stdout == "" and len(done.stderr.splitlines()) == 1
            and done.stderr.startswith("error: ") and "--allow-import" in done.stderr)


def test_a_package_made_for_netsim_is_imported(site, tmp_path):
    imported = install(site, requires="netsim")
    done = netsim("check", "tiny", "--set", OWN, site=site, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert imported.exists()


def test_another_package_is_not_imported_unless_allowed(site, tmp_path):
    imported = install(site)
    done = netsim("check", "tiny", "--set", OWN, site=site, cwd=tmp_path)
    assert refused(done)
    assert "allocation.method" in done.stderr
    assert not imported.exists()
    assert netsim("check", "tiny", "--set", OWN, "--allow-import", site=site, cwd=tmp_path).returncode == 0
    assert imported.exists()


def test_a_package_that_pip_has_installed(site, tmp_path):
    install(tmp_path / "code", entry_point="netsim")
    info = tmp_path / "code" / "mylab-1.0.dist-info"
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel = tmp_path / "mylab-1.0-py3-none-any.whl"
    shutil.make_archive(str(wheel), "zip", tmp_path / "code")
    wheel.with_name(f"{wheel.name}.zip").rename(wheel)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--disable-pip-version-check",
           "--target", str(site), str(wheel)]
    done = subprocess.run(pip, capture_output=True, text=True)
    if "No module named pip" in done.stderr:
        pytest.skip("no pip here")
    assert done.returncode == 0, done.stderr
    assert netsim("check", "tiny", "--set", OWN, site=site, cwd=tmp_path).returncode == 0
    assert (site / "mylab" / "imported").exists()


@pytest.mark.parametrize("words", [
    ("check", "tiny", "--set", OWN), ("run", "tiny", "--set", OWN), ("allocate", "tiny", "--set", OWN),
    ("allocate", "tiny", "--method", "mylab.methods:solve"),
    ("check", "tiny", "--set", "selection.method=mylab.methods:solve"),
    ("run", "quickstart", "--set", "learning.model=mylab.methods:solve"),
    ("run", "quickstart", "--no-learning", "--set", "learning.model=mylab.methods:solve", "--set", "learning.bits=auto",
     "--set", "selection.method=fedavg"),
    ("allocate", "quickstart", "--set", "learning.model=mylab.methods:solve", "--set", "learning.bits=auto"),
    ("check", "quickstart", "--set", 'learning.partition={kind="mylab.methods:solve"}'),
    ("check", "quickstart", "--set", "learning.dataset=mylab.methods:solve"),
    ("check", "quickstart", "--set", "learning.aggregation=mylab.methods:solve"),
    ("favor-train", "quickstart", "-o", "policy.pt", "--set", "learning.model=mylab.methods:solve", "--set",
     "learning.target_accuracy=0.9"),
    ("data", "mylab.methods:solve"), ("data", "digits", "--partition", "mylab.methods:solve"),
], ids=lambda words: " ".join(words))
def test_every_command_asks(words, site, tmp_path, monkeypatch, capsys):
    from netsim.cli import main

    imported = install(site)
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["netsim", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "--allow-import" in capsys.readouterr().err
    assert not imported.exists()
    assert "mylab" not in sys.modules


@pytest.mark.parametrize("name", ["antigravity:x", "os:system", "this:d", "idlelib.idle:x", "builtins:print"])
def test_python_itself_is_not_made_for_netsim(name, tmp_path, capsys):
    before = set(sys.modules)
    with import_refused("allocation.method"):
        simulate(load_scenario("tiny", [f"allocation.method={name}"]))
    assert not {"antigravity", "this", "idlelib.idle"} & (set(sys.modules) - before)


def test_python_callers_are_asked_too_where_a_scenario_names_the_code(site, monkeypatch):
    imported = install(site)
    monkeypatch.syspath_prepend(str(site))
    with import_refused():
        simulate(load_scenario("tiny", [OWN]))
    with import_refused():
        compare_methods(load_scenario("tiny"), ["mylab.methods:solve"], 0)
    model = load_scenario("quickstart", [
        "learning.model=mylab.methods:solve", "learning.bits=auto", "learning.target_accuracy=0.9"])
    with import_refused():
        sample_problem(model, 0)
    with import_refused(), open_trainer(model, 0):
        pass
    with import_refused():
        policy_for(model, 1)
    assert not imported.exists()


SWEEP = """
scenario = "tiny"
seeds = 2
set.end.rounds = 2
set.allocation.method = "mylab.methods:solve"
"""


def test_the_workers_of_a_sweep_are_told(site, tmp_path):
    imported = install(site)
    (tmp_path / "own.toml").write_text(SWEEP)
    assert refused(netsim("sweep", "own.toml", "--workers", "2", site=site, cwd=tmp_path))
    assert not imported.exists()
    done = netsim("sweep", "own.toml", "--workers", "2", "--allow-import", site=site, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "results" / "sweeps" / "own" / "cells").glob("*.json"))) == 2


MODEL = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, shape: tuple[int, int, int], classes: int, *, hidden: int = 4) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], hidden), nn.ReLU(),
                                    nn.Linear(hidden, classes))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)
"""
LEARNS = """
base = "quickstart"

[learning]
model = { name = "mylab.nets:Net", hidden = 6 }
bits = "auto"

[selection]
method = "fedavg"
cohort = 4

[end]
rounds = 2
"""


def test_training_workers_build_a_users_model_with_its_options(site, tmp_path):
    install(site, files={"mylab/__init__.py": "", "mylab/nets.py": MODEL})
    (tmp_path / "own.toml").write_text(LEARNS)
    done = netsim("run", "own.toml", "--workers", "2", "--out", "run", "--allow-import", site=site, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert 'model = { name = "mylab.nets:Net", hidden = 6 }' in (tmp_path / "run" / "scenario.toml").read_text()


def test_options_of_a_users_model_are_checked(site, tmp_path, monkeypatch):
    install(site, "netlab", files={"netlab/__init__.py": "", "netlab/nets.py": MODEL})
    monkeypatch.syspath_prepend(str(site))
    (tmp_path / "own.toml").write_text(LEARNS.replace("mylab", "netlab"))

    def bits(*changes: str) -> float:
        return upload_bits(load_scenario(tmp_path / "own.toml", changes))

    assert bits() - bits("learning.model.hidden=5") == 32 * (28 * 28 + 1 + 10)       # a hidden unit more
    assert bits("learning.model=netlab.nets:Net") == bits("learning.model.hidden=4")        # its default
    for change, code, key in (('hidden="six"', "wrong-type", "learning.model.hidden"),
                              ("hiden=6", "unknown-option", "learning.model.hiden")):
        wrong = load_scenario(tmp_path / "own.toml", [f"learning.model.{change}"])
        with pytest.raises(InputError) as error:
            validate(wrong, learning=True, allow_import=True)
        assert (error.value.code, error.value.key) == (code, key)


class TestWhoseCodeItIs:
    """Every file that an import would run must be one of a package made for netsim."""

    @pytest.fixture(autouse=True)
    def _path(self, site, monkeypatch):
        monkeypatch.syspath_prepend(str(site))

    @pytest.mark.parametrize(("made", "ours"), [
        ({"requires": "netsim"}, True), ({"requires": "Netsim[lab]>=0.1; python_version > '3'"}, True),
        ({"entry_point": "netsim"}, True), ({}, False), ({"requires": "netsim-lookalike"}, False),
        ({"requires": "not-netsim"}, False), ({"entry_point": "console_scripts"}, False)])
    def test_how_a_package_says_that_it_is_made_for_netsim(self, made, ours, site):
        install(site, **made)
        if ours:
            check_made_for_netsim("mylab.methods:solve", "here")
        else:
            with import_refused("here", "The package mylab is not made for netsim"):
                check_made_for_netsim("mylab.methods:solve", "here")

    def test_a_module_that_shadows_an_installed_one(self, site, tmp_path, monkeypatch):
        install(site, requires="netsim")
        check_made_for_netsim("mylab.methods:solve", "here")
        (tmp_path / "other" / "mylab").mkdir(parents=True)
        for file in ("__init__.py", "methods.py"):
            (tmp_path / "other" / "mylab" / file).write_text(METHOD)
        monkeypatch.syspath_prepend(str(tmp_path / "other"))
        with import_refused("here", "other/mylab/__init__.py, which is no file of the package mylab"):
            check_made_for_netsim("mylab.methods:solve", "here")

    def test_a_file_that_another_has_put_into_the_package(self, site):
        install(site, requires="netsim", recorded={"mylab/__init__.py"})
        with import_refused("here", "no file of the package mylab"):
            check_made_for_netsim("mylab.methods:solve", "here")

    def test_a_shared_namespace(self, site):
        install(site, "one", requires="netsim", files={"shared/one/methods.py": METHOD})
        install(site, "two", files={"shared/two/methods.py": METHOD})
        check_made_for_netsim("shared.one.methods:solve", "here")
        with import_refused("here"):
            check_made_for_netsim("shared.two.methods:solve", "here")
        with import_refused("here"):
            check_made_for_netsim("shared:solve", "here")

    def test_a_single_file(self, site):
        install(site, "alone", requires="netsim", files={"alone.py": METHOD})
        check_made_for_netsim("alone:solve", "here")
        with import_refused("here", "alone is no package", code="import-failed"):
            check_made_for_netsim("alone.inside:solve", "here")

    def test_an_editable_install_answers_for_its_own_folder_alone(self, site, tmp_path, monkeypatch):
        source = tmp_path / "source"
        install(site, requires="netsim", files={})
        (site / "mylab-1.0.dist-info" / "direct_url.json").write_text(
            f'{{"url": "{source.as_uri()}", "dir_info": {{"editable": true}}}}')
        for path in ("src/mylab/methods.py", ".venv/stranger.py"):
            (source / path).parent.mkdir(parents=True)
            (source / path).write_text(METHOD)
            monkeypatch.syspath_prepend(str(source / Path(path).parts[0]))
        check_made_for_netsim("mylab.methods:solve", "here")
        with import_refused("here", "belongs to no installed package"):
            check_made_for_netsim("stranger:solve", "here")

    def test_what_is_imported_already(self, site, monkeypatch):
        with import_refused("here", "The package numpy is not made for netsim"):
            check_made_for_netsim("numpy:load", "here")
        with import_refused("here", "belongs to no installed package"):
            check_made_for_netsim(f"{__name__}:load", "here")
        check_made_for_netsim("netsim.selection.basic:FedAvg", "here")

    def test_what_lies_in_the_current_directory_is_not_installed(self, site, tmp_path, monkeypatch):
        install(tmp_path, "trap", requires="netsim")
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("PYTHONPATH", raising=False)
        monkeypatch.syspath_prepend("")
        monkeypatch.syspath_prepend(str(tmp_path))
        with import_refused("here", "There is no trap", code="import-failed"):
            check_made_for_netsim("trap.methods:solve", "here")

    def test_another_thread_adds_the_current_directory_during_the_search(self, tmp_path, monkeypatch):
        class KernelThread:      # marimo's threads insert "" or the folder of a page when a page is opened
            @staticmethod
            def find_spec(name, path=None, target=None):
                sys.path.insert(0, "")

        install(tmp_path, "trap", requires="netsim")
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("PYTHONPATH", raising=False)
        monkeypatch.setattr(sys, "path", list(sys.path))
        monkeypatch.setattr(sys, "meta_path", [KernelThread, *sys.meta_path])
        with import_refused("here", "There is no trap", code="import-failed"):
            check_made_for_netsim("trap.methods:solve", "here")

    def test_what_is_half_removed_says_nothing(self, site):
        install(site, requires="netsim", entry_point="netsim")
        (site / "mylab-1.0.dist-info" / "direct_url.json").write_text("{")
        check_made_for_netsim("mylab.methods:solve", "here")
        for broken in ("~ylab-1.0.dist-info", "gone-1.0.dist-info"):
            (site / broken).mkdir()
        check_made_for_netsim("mylab.methods:solve", "here")
        with import_refused("here"):
            check_made_for_netsim("numpy:load", "here")

    def test_nothing_is_imported_to_find_out(self, site):
        imported = install(site, requires="netsim")
        check_made_for_netsim("mylab.methods:solve", "here")
        assert not imported.exists()
        assert "mylab" not in sys.modules

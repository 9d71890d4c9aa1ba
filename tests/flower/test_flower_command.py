"""`netsim flower` as a user meets it: what it prints and leaves, and one sentence for every mistake."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from small_apps import CLIENT, PYPROJECT, SERVER, tiny, write_app
from typer.testing import CliRunner

from netsim import load_run, load_scenario, simulate
from netsim.analysis.export import export
from netsim.base.errors import InputError
from netsim.cli import app as program
from netsim.flower import run_app
from netsim.report.page import write_report


def command(*words: str) -> tuple[int, str, str]:
    """Exit code, standard output, and what went wrong."""
    done = CliRunner().invoke(program, ["flower", *words])
    error = str(done.exception) if isinstance(done.exception, InputError) else ""
    return 2 if error else done.exit_code, done.stdout, error


@pytest.mark.slow
def test_a_run_prints_one_object_and_leaves_an_ordinary_folder(tmp_path):
    app = write_app(tmp_path / "app", client_app=CLIENT.replace("    trained =", '    print("hello")\n    trained ='),
                    server_app=SERVER.replace("    config = context", '    print("hello")\n    config = context'))
    code, out, _ = command(str(app), "--scenario", "tiny", "--out", str(tmp_path / "run"), "--json", "--workers", "1",
                           "--run-config", "num-server-rounds=2", "--set", "cell.bandwidth=10MHz", "--seed", "3")
    assert code == 0
    told = json.loads(out.splitlines()[-1])      # older runners mix both streams
    assert told["rounds"] == 2
    assert told["app"] == "quickstart"
    run = load_run(tmp_path / "run")
    assert run.info["seed"] == 3
    assert run.scenario.cell.bandwidth == 10e6
    assert run.breakdown().rounds.height == 2
    assert run.critical_path().steps.height > 0
    assert run.explain(2).as_json()
    for name, out_file in (("perfetto", "trace.json"), ("csv", "trace.csv")):
        export(run, name, tmp_path / out_file)
        assert (tmp_path / out_file).stat().st_size > 1000
    write_report([run], tmp_path / "report.html")
    write_report([run, simulate(load_scenario("tiny"), tmp_path / "ours")], tmp_path / "both.html")
    assert "quickstart" in (tmp_path / "report.html").read_text()


MISTAKES = {
    "no such folder": ({}, "no-such-file", "nowhere"),
    "no pyproject": ({}, "no-such-file", "pyproject.toml"),
    "no components": ({"pyproject": PYPROJECT.replace("[tool.flwr.app.components]", "[tool.flwr.app.others]")},
                      "missing", "serverapp"),
    "no clientapp": ({"pyproject": PYPROJECT.replace("clientapp =", "client =")}, "missing", "clientapp"),
    "no reference": ({"pyproject": PYPROJECT.replace('quickstart.client_app:app"', 'quickstart client"')}, "malformed",
                     "clientapp"),
    "no module": ({"pyproject": PYPROJECT.replace("quickstart.client_app", "quickstart.clients")}, "import-failed",
                  "No module named 'quickstart.clients'"),
    "a module that fails": ({"client_app": "import a_module_that_nobody_has\n"}, "import-failed",
                            "(quickstart/client_app.py, line 1)"),
    "a module that exits": ({"server_app": "raise SystemExit(3)\n"}, "import-failed", "SystemExit: 3"),
    "no such name": ({"pyproject": PYPROJECT.replace("client_app:app", "client_app:apps")}, "import-failed",
                     "AttributeError"),
    "something else": ({"pyproject": PYPROJECT.replace("client_app:app", "client_app:random")}, "wrong-interface",
                       "ClientApp"),
    "a server that fails": ({"server_app": SERVER.replace("    strategy = Noting", "    1 / 0\n    strategy = Noting")},
                            "your-code", "(quickstart/server_app.py, line 24)"),
    "nothing to train": ({"server_app": SERVER.replace("        strategy.start", "        (lambda **_: None)")},
                         "empty", "train messages"),
    "odd configuration": ({"pyproject": PYPROJECT.replace("min-nodes = 2", "min-nodes = [2]")}, "wrong-type",
                          "tool.flwr.app.config.min-nodes"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_one_sentence(tmp_path, mistake):
    files, code, said = MISTAKES[mistake]
    app = write_app(tmp_path / "app", **files)
    if mistake == "no such folder":
        app = tmp_path / "nowhere"
    elif mistake == "no pyproject":
        (app / "pyproject.toml").unlink()
    with pytest.raises(InputError) as error:
        run_app(app, tiny(), tmp_path / "run", workers=1)
    assert error.value.code == code
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_an_app_that_asks_for_more_nodes_than_there_are(tmp_path):
    code, out, error = command(str(write_app(tmp_path / "app")), "--scenario", "tiny", "--out", str(tmp_path / "run"),
                               "--run-config", "min-nodes=6")
    assert (code, out) == (2, "")
    assert "the scenario has 5 devices, of which 5 can do a job now" in error.lower()


@pytest.mark.parametrize(("change", "code", "key"), [
    ("rounds=3", "unknown-key", "--run-config"), ("min-nodes", "unknown-key", "--run-config"),
    ("min-nodes=many", "wrong-type", "--run-config min-nodes")])
def test_a_change_of_the_configuration_that_makes_no_sense(tmp_path, change, code, key):
    with pytest.raises(InputError) as error:
        run_app(write_app(tmp_path), tiny(), run_config=[change])
    assert (error.value.code, error.value.key) == (code, key)


@pytest.mark.parametrize(("change", "sentence"), [
    ("end.rounds=3", "the app determines the number of rounds"),
    ("learning.bits=1Mbit", "the app determines the model"),
    ("selection.method=oort", "the app selects the devices"), ("server.kind=fedbuff", "ServerApp is the server"),
    ("rounds.first=all", "selects the devices of the first round")])
def test_a_change_without_effect_is_refused(tmp_path, change, sentence):
    code, _, error = command(str(write_app(tmp_path)), "--scenario", "tiny", "--set", change)
    assert code == 2
    assert error.startswith(f"--set {change}: has no effect")
    assert sentence in error


def test_flower_is_missing_or_too_old(tmp_path, monkeypatch):
    from netsim.flower import version_check

    def missing(name: str) -> str:
        raise version_check.PackageNotFoundError(name)

    monkeypatch.setattr(version_check, "version", missing)
    code, _, error = command(str(write_app(tmp_path)), "--scenario", "tiny")
    assert code == 2
    assert "pip install 'netsim[flower]'" in error
    monkeypatch.setattr(version_check, "version", lambda name: "1.9.0")
    assert "found flwr 1.9.0; expected flwr 1.22 or newer" in command(str(tmp_path), "--scenario", "tiny")[2]


def test_the_table_flower_has_no_place_in_a_run_of_ours():
    with pytest.raises(InputError) as error:
        simulate(tiny("flower.evaluation=charged"))
    assert (error.value.code, error.value.key) == ("no-effect", "flower")


@pytest.mark.slow
def test_an_apps_modules_and_path_are_gone_afterwards(tmp_path):
    before = list(sys.path)
    for name in ("one", "two"):
        app = write_app(tmp_path / name, client_app=CLIENT.replace('"drawn"', f'"{name}"'))
        run = run_app(app, tiny(), workers=1)
        assert f"train {name}" in run.events["name"].to_list()
    assert sys.path == before
    assert "quickstart" not in sys.modules


@pytest.mark.slow
def test_a_folder_that_holds_a_run_is_not_touched(tmp_path):
    app, out = write_app(tmp_path / "app"), tmp_path / "run"
    run_app(app, tiny(), out, workers=1)
    with pytest.raises(InputError) as refused:
        run_app(app, tiny(), out, workers=1)
    assert refused.value.code == "exists"


@pytest.mark.slow
def test_the_example_learns(tmp_path):
    run = run_app(Path(__file__).parent.parent.parent / "examples" / "flower-digits", load_scenario("quickstart"),
                  tmp_path / "run")
    accuracy = run.rounds["accuracy"].to_list()
    assert len(accuracy) == 5
    assert accuracy[-1] > accuracy[0] + 0.2
    assert run.summary["dropped"] == 0

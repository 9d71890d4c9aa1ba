"""The command line: what it prints, and what it says when the input is at fault."""

import json
import subprocess
import sys

import pytest
from small_scenario import FLEET


def test_a_run_ends_with_a_table_and_the_path_of_its_folder(netsim, tmp_path):
    code, out, err = netsim("run", "tiny")
    assert code == 0
    assert "round 3/3" in err            # progress is no part of the result
    assert "round 3/3" not in out
    assert "where the time went" in out
    assert "results/tiny-seed0" in out
    assert (tmp_path / "results/tiny-seed0/summary.json").exists()


def test_the_next_run_gets_the_next_folder(netsim, tmp_path):
    for _ in range(3):
        assert netsim("run", "tiny")[0] == 0
    folders = sorted(path.name for path in (tmp_path / "results").iterdir())
    assert folders == ["tiny-seed0", "tiny-seed0-2", "tiny-seed0-3"]


def test_json_is_one_object_on_standard_output_and_nothing_else(netsim):
    code, out, err = netsim("run", "tiny", "--json", "--seed", 4)
    summary = json.loads(out)
    assert code == 0
    assert "round 3/3" in err
    assert set(summary) == {"run_dir", "rounds", "simulated_s", "energy_j", "accuracy", "target_reached", "round_s",
                            "breakdown", "dropped", "trace_sha256"}
    assert summary["rounds"] == len(summary["round_s"]) == 3
    assert set(summary["breakdown"]) == {"compute", "upload", "wait"}
    assert sum(summary["breakdown"].values()) == pytest.approx(summary["simulated_s"], rel=1e-9)


def test_the_same_seed_gives_the_same_trace_and_another_seed_another(netsim):
    def fingerprint(seed):
        return json.loads(netsim("run", "mixed-fleet", "--no-learning", "--set", "selection.method=fedavg",
                                 "--set", "end.rounds=3", "--json", "--seed", seed)[1])["trace_sha256"]

    assert fingerprint(1) == fingerprint(1)
    assert fingerprint(1) != fingerprint(2)


def test_allocate_compares_methods_on_the_same_cohort(netsim):
    code, out, _ = netsim("allocate", "paper", "--method", "sao", "--method", "equal", "--json", "--seed", 1)
    sao, equal = json.loads(out)
    assert code == 0
    assert (sao["method"], equal["method"]) == ("sao", "equal")
    assert set(sao) >= {"method", "feasible", "reason", "round_s", "energy_j", "solve_s", "devices"}
    assert set(sao["devices"][0]) >= {
        "device", "bandwidth_hz", "cpu_hz", "power_w", "compute_s", "upload_s", "energy_j", "budget_j"}
    assert len(sao["devices"]) == 10
    if equal["feasible"]:
        assert [row["device"] for row in sao["devices"]] == [row["device"] for row in equal["devices"]]
        assert sao["round_s"] <= equal["round_s"]


def test_the_paper_s_round_takes_what_the_paper_says(netsim):
    """Fig. 14: 111.84 ms at 22 dBm and 30 mJ; the calibrated scenario's quartiles over layouts are 104 and 115 ms."""
    import numpy as np

    from netsim import load_scenario
    from netsim.allocation import allocate
    from netsim.sample_problem import sample_problem

    scenario = load_scenario("paper", ["population.phone.budget=30mJ", "population.phone.radio.power=22dBm"])
    times = [allocate(sample_problem(scenario, seed).problem).round_s for seed in range(40)]
    assert 0.103 <= np.median(times) <= 0.116


def test_allocate_prints_a_table_and_draws_a_figure(netsim, tmp_path):
    code, out, _ = netsim("allocate", "tiny", "--method", "sao", "--method", "equal", "--figure", "plan.png")
    assert code == 0
    assert "sao" in out
    assert "equal" in out
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    code, _, err = netsim("allocate", "tiny", "--figure", "plan.png")
    assert code == 2
    assert "--force" in err


def test_first_k_with_a_plan_that_lets_all_end_together_is_warned_of(netsim, tmp_path):
    changes = ["server.kind=first-k", "server.buffer=2", "selection.cohort=4", "selection.method=fedavg",
               "end.rounds=2", "allocation.method=sao", "population.node.budget=1 J"]
    flags = [part for change in changes for part in ("--set", change)]
    for command in (["check", "tiny"], ["run", "tiny", "--no-learning", "--out", str(tmp_path / "run")]):
        code, out, _ = netsim(*command, *flags)
        assert (code, "saves no time" in out) == (0, True)
    for other in ("allocation.method=equal", "server.buffer=4", "allocation.sharing=tdma"):
        code, out, _ = netsim("check", "tiny", *flags, "--set", other)
        assert (code, "saves no time" in out) == (0, False)


def test_check_schema_and_scenarios(netsim):
    assert netsim("check", "quickstart")[0] == 0
    assert "[cell]" in netsim("check", "quickstart", "--toml")[1]
    assert "cell" in json.loads(netsim("schema")[1])["properties"]
    listed = netsim("scenarios")[1]
    for name in ("quickstart", "paper", "mixed-fleet", "tiny"):
        assert name in listed


def test_models_of_other_images_and_classes_are_counted(netsim, tmp_path, monkeypatch):
    """Three inputs, five outputs: 3 * 5 + 5 parameters; forward and the weights' gradient 2 * 15 operations each."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/flat_net.py").write_text("from torch import nn\n\n\nclass Flat(nn.Sequential):\n"
        "    def __init__(self, shape, classes):\n"
        "        super().__init__(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], classes))\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    own = ("models", "flat_net:Flat", "--shape", "3,1,1", "--classes", "5", "--allow-import")
    (flat,) = json.loads(netsim(*own, "--json")[1])
    assert (flat["parameters"], flat["flops_per_sample"]) == (20, 60)
    code, out, _ = netsim(*own)
    assert (code, "flat_net:Flat" in out, " 60 " in out) == (0, True, True)
    for shape in ("3,x,1", "3,1", "0,1,1", "3,1,1e9"):
        code, _, err = netsim("models", "mnist-cnn", "--shape", shape)
        assert code == 2
        assert all(word in err for word in ("--shape", shape, "3,32,32"))


def test_device_profiles_are_listed_with_their_values_and_sources(netsim, tmp_path):
    rows = ["profile,key,value,low,high,source,licence,note",
            "board,cpu.max,1.5 GHz,1.4 GHz,1.6 GHz,own bench,CC0,room"]
    (tmp_path / "own.csv").write_text("\n".join(rows) + "\n")
    (board,) = json.loads(netsim("devices", "--profiles", "own.csv", "--json")[1])
    assert board["values"]["cpu.max"] == {"value": "1.5 GHz", "low": "1.4 GHz", "high": "1.6 GHz",
                                          "source": "own bench", "licence": "CC0", "note": "room"}
    short, whole = (netsim("devices", "--profiles", "own.csv", *flag)[1] for flag in ((), ("--all",)))
    assert "1.4 GHz" in short
    assert ("CC0" in short, "CC0" in whole) == (False, True)


def test_data_says_what_is_there_and_draws_a_split(netsim, tmp_path):
    code, out, _ = netsim("data", "digits", "--partition", "majority:sigma=0.8", "--devices", 12, "--samples", 50,
                          "--figure", "split.png")
    assert code == 0
    assert "digits: 1,442 training and 355 test images" in out
    assert "12 devices with 50 to 50 samples; 80% of a device's samples are of its most frequent class" in out
    assert (tmp_path / "split.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("words", "said"), [
    (["data", "image-folder", "--root", "nowhere"], "nowhere"),
    (["data", "digits", "--partition", "majority:sigma=1.8"], "sigma"),
    (["favor-train", "quickstart", "-o", "policy.pt"], "target_accuracy"),
    (["breakdown", "nowhere"], "nowhere"),
    (["report", "nowhere"], "nowhere"),
])
def test_bad_input_to_other_commands(netsim, words, said):
    code, _, err = netsim(*words)
    assert code == 2
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize(("words", "said"), [          # the rows of tests/refusals are many more
    (["run", "tiny", "--set", "cell.bandwith=20MHz"], ["cell.bandwith", '"bandwidth"']),
    (["run", "missing.toml"], ["missing.toml"]),
    (["run", "tiny", "--set", "population.node.budget=1uJ", "--set", "rounds.infeasible=error", "--set",
      "rounds.first=cohort"], ["budget", "device"]),
    (["run", "paper", "--set", "learning.root=nowhere"], ["mnist", "nowhere"]),
    (["run", "fleet.toml"], ["fleet.csv", "line 3", "budget", "20 Hz"]),
    (["run", "huge.toml"], ["huge.toml"]),
    (["check", "quickstart", "--set", "selection.method=favor", "--set", "selection.policy=broken.toml"],
     ["broken.toml"]),
])
def test_bad_input_gets_one_message_and_exit_code_2(netsim, tmp_path, words, said):
    (tmp_path / "fleet.toml").write_text(FLEET)
    (tmp_path / "fleet.csv").write_text("power,budget\n23 dBm,20 mJ\n23 dBm,20 Hz\n")
    (tmp_path / "broken.toml").write_text("[cell]\nradius = \n")
    (tmp_path / "huge.toml").write_text(f"[end]\nrounds = {'9' * 5000}\n")
    code, out, err = netsim(*words)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert "Traceback" not in err
    for words_in_it in said:
        assert words_in_it in err
    assert not list(tmp_path.glob("results/*/trace/*"))


def test_a_folder_in_use_is_left_alone(netsim, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep me")
    code, _, err = netsim("run", "tiny", "--out", "mine")
    assert (code, (tmp_path / "mine" / "notes.txt").read_text()) == (2, "keep me")
    assert "not empty" in err
    (tmp_path / "file").write_text("keep me too")
    assert netsim("run", "tiny", "--out", "file")[0] == 2
    assert (tmp_path / "file").read_text() == "keep me too"


def test_resuming_another_scenario_is_refused(netsim):
    assert netsim("run", "tiny", "--out", "run")[0] == 0
    code, _, err = netsim("run", "tiny", "--out", "run", "--resume", "--set", "cell.bandwidth=1MHz")
    assert code == 2
    assert "belongs to another run" in err


def test_resume_without_a_folder_takes_the_last_run(netsim, tmp_path):
    assert netsim("run", "tiny")[0] == 0
    assert netsim("run", "tiny", "--resume")[0] == 0
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["tiny-seed0"]


def test_a_scenario_s_name_cannot_lead_out_of_the_results_folder(netsim, tmp_path):
    code, out, _ = netsim("run", "tiny", "--set", "name=../../../outside", "--json")
    assert code == 0
    assert (tmp_path / json.loads(out)["run_dir"]).resolve().is_relative_to(tmp_path / "results")


def test_help_teaches():
    done = subprocess.run([sys.executable, "-m", "netsim", "--help"], capture_output=True, text=True, check=True)
    for command in ("run", "allocate", "check", "schema", "scenarios"):
        assert command in done.stdout
    assert "netsim run quickstart" in done.stdout


def test_a_help_page_says_what_the_reference_says_whichever_typer_parses(netsim, monkeypatch):
    from netsim.cli import app
    from netsim.cli.help_pages import command_texts

    monkeypatch.setenv("COLUMNS", "300")
    for command in command_texts(app):
        code, page, _ = netsim(*command.name.split(), "--help")
        assert code == 0
        assert f"{command.name} [OPTIONS]" in page
        assert command.summary in page
        for parameter in command.parameters:
            (line,) = [line for line in page.splitlines() if parameter.meaning in line]
            assert " ".join([", ".join(parameter.names), parameter.takes]).split() == line.strip("│ ").split(
                parameter.meaning)[0].split()
            assert (f"[default: {parameter.default}]" in line) == bool(parameter.default)
            assert ("[required]" in line) == parameter.required
        assert "<bool>" not in page


def test_a_flag_takes_nothing_and_a_default_of_zero_is_shown():
    from netsim.cli import app
    from netsim.cli.help_pages import command_texts

    run = next(command for command in command_texts(app) if command.name == "run")
    found = {parameter.names: parameter for parameter in run.options}
    assert found[("--json",)].takes == ""
    assert found[("--seed",)].default == "0"
    assert found[("--out", "-o")].takes == "DIR"
    assert [argument.takes for argument in run.arguments] == ["SCENARIO"]


def test_names_and_folders_mean_just_what_they_say(netsim, tmp_path):
    assert netsim("run", "tiny", "--out", "x1", "--set", "cell.bandwidth=8MHz")[0] == 0
    code, out, _ = netsim("run", "tiny", "--out", "x[1]", "--set", 'name="a [/b] [red]c"')
    assert code == 0
    assert "a [/b] [red]c, seed 0" in out
    assert "x[1]" in out
    own, other = (json.loads(netsim("breakdown", folder, "--json")[1]) for folder in ("x[1]", "x1"))
    assert own != other
    code, out, _ = netsim("check", "tiny", "--set", 'name="[/b]x"')
    assert (code, "[/b]x: valid" in out) == (0, True)


def test_the_line_to_go_on_with_can_be_pasted(netsim, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("netsim.simulation.simulate", interrupted)
    code, _, err = netsim("run", "tiny", "--set", "cell.bandwidth=10 MHz", "--out", "r")
    assert code == 130
    assert "--set 'cell.bandwidth=10 MHz'" in err


def test_a_dead_worker_is_one_message(netsim, monkeypatch):
    from netsim.base.errors import WorkerError

    def died(*_, **__):
        raise WorkerError("a training worker ended without an answer")

    monkeypatch.setattr("netsim.simulation.simulate", died)
    code, _, err = netsim("run", "tiny", "--out", "r")
    assert code == 1
    assert err.startswith("error: a training worker ended")
    assert "Traceback" not in err


def test_the_program_says_which_version_it_is(netsim):
    from importlib.metadata import version

    assert netsim("--version") == (0, f"netsim {version('netsim')}\n", "")


@pytest.mark.parametrize(("typed", "offered"), [
    ("netsim cr", ["critical-path"]),
    ("netsim run --no", ["--no-learning"]),
    ("netsim run qu", ["quickstart"]),
    ("netsim flower examples/app --scenario st", ["storm", "street"]),
    ("netsim allocate paper --method sao-", ["sao-common-power", "sao-joint", "sao-adaptive"]),
    ("netsim data f", ["fashion-mnist"]),
    ("netsim dataset fetch f", ["fashion-mnist"]),
    ("netsim export results/run --format p", ["perfetto", "parquet"]),
    ("netsim reproduce table", ["table1", "table2", "table3"]),
    ("netsim run ./mine", []),              # the shell offers files
])
def test_the_tab_key_completes_commands_options_and_names(netsim, monkeypatch, typed, offered):
    monkeypatch.setattr("__main__.__package__", "", raising=False)      # `python -m pytest` is another program
    monkeypatch.setenv("_NETSIM_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    code, out, _ = netsim()
    assert (code, sorted(out.split())) == (0, sorted(offered))


def test_long_tables_say_how_to_see_them_whole_and_all_shows_it(netsim):
    def rows(*words):
        out = netsim(*words)[1]
        return out, sum("│" in line for line in out.splitlines())

    assert netsim("run", "lab", "--set", "end.rounds=25", "--out", "r")[0] == 0
    for command, cut in (("breakdown", ["rounds (20 of 25; all with --all)", "devices (20 of "]),
                         ("critical-path", ["on the path (20 of ", "could be (20 of "])):
        (short, few), (whole, many) = rows(command, "r"), rows(command, "r", "--all")
        assert all(words in short for words in cut)
        assert ("--all" in whole, many > few) == (False, True)
    many = ("allocate", "lab", "--set", "selection.cohort=31")
    short, whole = netsim(*many)[1], netsim(*many, "--all")[1]
    assert "and 1 more device; all with --all" in short
    assert ("--all" in whole, len(whole.splitlines())) == (False, len(short.splitlines()))      # a device for that line


def test_one_is_singular(netsim, tmp_path):
    (tmp_path / "one.toml").write_text(FLEET)
    (tmp_path / "fleet.csv").write_text("power,budget\n23 dBm,20 mJ\n")
    assert "1 device " in netsim("check", "one.toml")[1]
    assert netsim("run", "one.toml", "--no-learning", "--set", "end.rounds=1", "--out", "r")[0] == 0
    assert " in 1 round " in netsim("breakdown", "r")[1]

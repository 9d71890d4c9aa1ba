"""netsim as Python code uses it: scenarios made and changed, objects of the session, faults told, results shown."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from torch import nn

import netsim
from netsim import InputError, Scenario, load_scenario, simulate
from netsim.allocation import Problem, allocate, plan_for
from netsim.learning.dataset_files import decoded
from netsim.selection import Choice, Method, View

CELL = {
    "cell": {"radius": "300 m", "bandwidth": "10 MHz"},
    "population": [{"name": "phone", "count": 8, "cpu": {"min": "0.2 GHz", "max": "2 GHz", "cycles_per_sample": 2e4},
                    "radio": {"power": "23 dBm"}, "budget": "60 mJ", "samples": 100}],
    "learning": {"bits": "448 kbit"}, "selection": {"method": "fedavg", "cohort": 3}, "end": {"rounds": 4},
}


class FirstOnes(Method):
    """The devices with the lowest numbers."""

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        return Choice(np.flatnonzero(view.available)[:view.cohort_size])


class TwiceAsGood:
    """A channel with twice the gain that the places give."""

    changes = True         # from what the population begins with

    def __init__(self, scenario, population, seed):
        self._gain = 2 * population.gain

    def gain(self, devices, t, round):
        return self._gain[devices]

    mean = gain

    def next_change(self, t):
        return math.inf


def equal_shares(problem: Problem):
    return allocate(problem, "equal")


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert netsim.__version__ == version("netsim")


def test_a_scenario_of_tables_is_that_of_a_file(tmp_path: Path) -> None:
    made = Scenario.of(CELL)
    (tmp_path / "cell.toml").write_text(made.to_toml())
    assert load_scenario(tmp_path / "cell.toml") == made
    assert CELL["cell"] == {"radius": "300 m", "bandwidth": "10 MHz"}            # what was given stays as it is


def test_changes_are_those_of_the_command_line() -> None:
    tiny = load_scenario("tiny")
    for changed in (tiny.with_({"cell.bandwidth": "10 MHz"}), tiny.with_(cell={"bandwidth": "10 MHz"}),
                    load_scenario("tiny", {"cell.bandwidth": "10 MHz"}),
                    Scenario.of({"base": "tiny", "cell": {"bandwidth": "10 MHz"}})):
        assert changed.digest == load_scenario("tiny", ["cell.bandwidth=10MHz"]).digest
    assert tiny.with_().digest == tiny.digest
    assert tiny.with_({"end.rounds": np.int64(3)}).end.rounds == 3
    assert load_scenario("paper", {"population.phone.count": 7, "selection.cohort": 3}).size == 7


def test_a_name_a_path_or_a_dict_stands_for_a_scenario() -> None:
    for given in (load_scenario("tiny"), {"base": "tiny"}):
        assert simulate(given, seed=3).info["trace_sha256"] == simulate("tiny", seed=3).info["trace_sha256"]


def test_objects_of_the_session_are_used() -> None:
    own = simulate(CELL, allocation=equal_shares, selection=FirstOnes)
    named = simulate(Scenario.of(CELL).with_({"allocation.method": "equal"}), selection=FirstOnes)
    assert own.rounds["round_s"].to_list() == named.rounds["round_s"].to_list()
    assert set(own.jobs.filter(own.jobs["round"] > 1)["device"]) == {0, 1, 2}
    better = simulate(CELL, channel=TwiceAsGood, selection=FirstOnes)
    plain = simulate(CELL, selection=FirstOnes)
    assert better.jobs["gain"].to_numpy() == pytest.approx(2 * plain.jobs["gain"].to_numpy())


@pytest.mark.slow
def test_a_model_and_data_of_the_session_are_learned_from() -> None:
    import torch

    from netsim.learning.dataset_files import decoded

    class Small(torch.nn.Module):
        def __init__(self, shape, classes):
            super().__init__()
            self.all = torch.nn.Linear(math.prod(shape), classes)

        def forward(self, images):
            return self.all(images.flatten(1))

    def two_halves(root):
        rng = np.random.default_rng(0)
        labels = np.arange(1000) % 2
        images = rng.integers(0, 60, (1000, 4, 4, 1)).astype(np.uint8)
        images[labels == 1, :2] += 150
        return decoded(images, labels, 900, ["below", "above"])

    table = {**CELL, "learning": {"dataset": "digits", "model": "mnist-cnn", "local_iterations": 2,
                                  "learning_rate": 0.1, "batch_size": 10}}
    for workers in (1, 2):
        run = simulate(table, model=Small, dataset=two_halves, workers=workers)
        assert run.rounds["accuracy"][-1] == 1.0


def test_what_lives_in_a_session_cannot_be_taken_up(tmp_path: Path) -> None:
    simulate(CELL, tmp_path / "run", allocation=equal_shares)
    with pytest.raises(InputError) as error:
        simulate(CELL, tmp_path / "run", allocation=equal_shares, resume=True)
    assert (error.value.code, error.value.key) == ("unsupported", "resume")
    with pytest.raises(InputError) as error:
        simulate(tmp_path / "run" / "scenario.toml")
    assert (error.value.code, error.value.key) == ("import-failed", "allocation.method")


def broken_plan(problem):
    shares = [1.0]
    return shares[5]


class BrokenChoice(Method):
    def __call__(self, view, rng):
        return Choice(np.array([1]) / view.nonsense)


@pytest.mark.parametrize(("own", "told"), [
    ({"allocation": broken_plan}, r"^round 1, allocation session:broken_plan, line \d+ of .*test_python_first.py: "
                                  r"return shares\[5\]: IndexError: list index out of range$"),
    ({"selection": BrokenChoice}, r"^round 2, selection session:BrokenChoice, line \d+ of .*: return Choice.*: "
                                  r"AttributeError: a view has no column 'nonsense'$"),
])
def test_a_fault_in_a_users_method_names_round_method_and_line(own, told) -> None:
    with pytest.raises(InputError, match=told) as fault:
        simulate(CELL, **own)
    assert str(Path(netsim.__file__).parent) not in str(fault.value)


PROBLEM = Problem(1e5, 1e7, 1e-28, 1e-9, 0.1, 1.0, 1e8, 1e9, 1e6, 1e-17)


def channel(**answers):
    """A channel of one's own that answers otherwise than it should."""
    return type("Air", (TwiceAsGood,), answers)


def data(images, labels, train=20):
    def load(root):
        return decoded(images, labels, train, [str(digit) for digit in range(10)])

    return load


class Flat(nn.Module):
    """Takes images for rows of ten numbers."""

    def __init__(self, shape, classes):
        super().__init__()
        self.last = nn.Linear(10, classes)

    def forward(self, images):
        return self.last(images.flatten(1))


LEARNS = {**CELL, "learning": {"bits": "448 kbit", "dataset": "digits", "model": "mnist-cnn"}}
IMAGES, LABELS = np.zeros((40, 28, 28), np.uint8), np.arange(40) % 10


def share(hertz=1.0, hz=1.0):
    """An allocation that gives each device so many times its equal share, and the CPU so many times its fastest."""
    def plan(problem):
        return plan_for(problem, np.full(len(problem), hertz * problem.bandwidth_hz / len(problem)),
                        hz * problem.cpu_max_hz)

    return plan


MISTAKES = {
    "a function for a class": (lambda: simulate("tiny", selection=equal_shares), "wrong-interface", "selection.method"),
    "an instance for a class": (lambda: simulate("tiny", selection=FirstOnes()), "wrong-interface", "selection.method"),
    "a class for a model": (lambda: simulate("quickstart", model=FirstOnes),
                            "wrong-interface", "model session:FirstOnes"),
    "nothing for a run": (lambda: netsim.load_run(None), "wrong-type", "load_run"),
    "nothing for a sweep": (lambda: netsim.load_sweep_results(None), "wrong-type", "load_sweep_results"),
    "a number for a problem": (lambda: allocate(3), "wrong-type", "problem"),
    "a number for a method": (lambda: allocate(PROBLEM, 3), "wrong-type", "method"),
    "no plan": (lambda: simulate(CELL, allocation=lambda problem: None),
                "wrong-answer", "allocation method session:<lambda>"),
    "a plan without numbers": (lambda: simulate(CELL, allocation=share(np.nan)),
                               "wrong-answer", "allocation method session:plan"),
    "too much band": (lambda: simulate(CELL, allocation=share(2.0)), "wrong-answer", "allocation method session:plan"),
    "too fast a clock": (lambda: simulate(CELL, allocation=share(hz=9.0)),
                         "wrong-answer", "allocation method session:plan"),
    "devices twice": (lambda: simulate(CELL, selection=lambda view, rng: [1, 1, 2]),
                      "wrong-answer", "round 2, selection session:<lambda>"),
    "devices beyond": (lambda: simulate(CELL, selection=lambda view, rng: [1, 2, 8]),
                       "wrong-answer", "round 2, selection session:<lambda>"),
    "half a device": (lambda: simulate(CELL, selection=lambda view, rng: [1.5, 2, 3]),
                      "wrong-answer", "round 2, selection session:<lambda>"),
    "too many devices": (lambda: simulate(CELL, selection=lambda view, rng: range(8)),
                         "wrong-answer", "round 2, selection session:<lambda>"),
    "parameters that are not told": (lambda: simulate(CELL, selection=lambda a, b: [1]),
                                     "wrong-interface", "selection.method"),
    "a negative gain": (lambda: simulate(CELL, channel=channel(gain=lambda *_: -np.ones(8))),
                        "wrong-answer", "round 1, channel session:Air"),
    "gains of too few": (lambda: simulate(CELL, channel=channel(gain=lambda *_: [1e-9])),
                         "wrong-answer", "round 1, channel session:Air"),
    "no gain": (lambda: simulate(CELL, channel=channel(gain=lambda *_: None)),
                "wrong-answer", "round 1, channel session:Air"),
    "a change in the past": (lambda: simulate(CELL, channel=channel(next_change=lambda *_: 0.0)),
                             "wrong-answer", "channel session:Air"),
    "a fault in a channel": (lambda: simulate(CELL, channel=channel(gain=lambda *_: 1 / 0)),
                             "your-code", "round 1, channel session:Air"),
    "a channel without a method": (lambda: simulate(CELL, channel=type("Air", (), {})),
                                   "wrong-interface", "cell.channel"),
    "an object for a model": (lambda: simulate(LEARNS, model=Flat((1, 28, 28), 10)),
                              "wrong-interface", "model session:Flat"),
    "a model for other images": (lambda: simulate(LEARNS, model=Flat), "your-code", "model session:Flat"),
    "a model without a dataset": (lambda: simulate(CELL, model=Flat), "no-effect", "learning.model"),
    "a function that makes no model": (lambda: simulate(LEARNS, model=lambda shape, classes: 3),
                                       "wrong-answer", "model session:<lambda>"),
    "data with gaps": (lambda: simulate(LEARNS, dataset=data(IMAGES + np.nan, LABELS)),
                       "not-finite", "decoded: images"),
    "rows for images": (lambda: simulate(LEARNS, dataset=data(IMAGES.reshape(40, -1), LABELS)),
                        "conflict", "learning.model"),
    "columns for data": (lambda: simulate(LEARNS, dataset=data(LABELS, LABELS)), "wrong-type", "decoded: images"),
    "a torch dataset that only iterates": (lambda: simulate(LEARNS, dataset=lambda root: (iter([]), iter([]))),
                                           "wrong-type", "training set"),
    "words for labels": (lambda: simulate(LEARNS, dataset=data(IMAGES, LABELS.astype(str))),
                         "wrong-type", "decoded: labels"),
    "labels for some": (lambda: simulate(LEARNS, dataset=data(IMAGES, LABELS[:9])), "wrong-length", "decoded"),
    "nothing to test on": (lambda: simulate(LEARNS, dataset=data(IMAGES, LABELS, 40)), "wrong-length", "decoded"),
    "a fault in a dataset": (lambda: simulate(LEARNS, dataset=lambda root: Path("/nowhere").read_text()),
                             "your-code", "dataset session:<lambda>"),
    "a sweep over nothing": (lambda: netsim.run_sweep("tiny", {"cell.radius": ["1 m", "2 m"]}),
                             "no-effect", "cell.radius"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_a_sentence(mistake: str) -> None:
    make, code, key = MISTAKES[mistake]
    with pytest.raises(InputError) as fault:
        make()
    assert (fault.value.code, fault.value.key) == (code, key)
    assert "\n  File" not in str(fault.value)


def test_results_show_themselves_with_units() -> None:
    scenario = Scenario.of(CELL)
    run = simulate(scenario)
    shown = {
        scenario._repr_html_(): ("cell.bandwidth", "10 MHz", "population.phone.budget", "60 mJ"),
        run._repr_html_(): ("scenario, seed 0: 4 rounds (finished)", " ms", " mJ"),
        run.breakdown()._repr_html_(): ("compute time", "band used", " %"),
        run.critical_path()._repr_html_(): ("what set the length of", "share of time"),
        run.explain(1)._repr_html_(): ("binding limits", "changes that would help", "bandwidth"),
    }
    for html, words in shown.items():
        assert html.startswith("<p><b>")
        assert all(word in html for word in words), (html, words)


def test_names_of_strangers_are_text_in_a_notebook() -> None:
    table = {**CELL, "population": [{**CELL["population"][0], "name": "<script>alert(1)</script>"}]}
    assert "<script>" not in Scenario.of(table)._repr_html_()


def test_a_figure_shows_itself_without_magic() -> None:
    figure = simulate(CELL).figure("breakdown")
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert figure._mime_()[0] == "image/png"


def test_a_run_is_called_by_what_was_changed(tmp_path: Path) -> None:
    changed = load_scenario("tiny", ["cell.bandwidth=9MHz"]).with_({"end.rounds": 1, "population.node.budget": "7 mJ"})
    run = simulate(changed, tmp_path / "run")
    told = "tiny with cell.bandwidth = 9MHz, end.rounds = 1, population.node.budget = 7 mJ, seed 0"
    assert run.title == netsim.load_run(tmp_path / "run").title == told
    assert told in run._repr_html_()
    assert simulate("tiny").title == "tiny, seed 0"
    again = simulate(load_scenario("tiny", ["cell.bandwidth=9 MHz", "end.rounds=1", "population.node.budget=7mJ"]),
                     tmp_path / "run", resume=True)
    assert again.info["trace_sha256"] == run.info["trace_sha256"]        # the same run, however its changes are spelled


def test_functions_of_the_session_select_and_make_models() -> None:
    run = simulate(CELL, selection=lambda view, rng: [5, 6, 7])
    assert set(run.jobs.filter(run.jobs["round"] > 1)["device"]) == {5, 6, 7}

    def net(shape, classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), classes))

    small = {**LEARNS, "learning": {**LEARNS["learning"], "bits": "auto"}, "end": {"rounds": 1}}
    first = simulate(small, model=net, workers=1).jobs["bits"][0]

    def net(shape, classes):      # another one of the same name, as in a cell of a notebook that is run again
        return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 5), nn.Linear(5, classes))

    assert (first, simulate(small, model=net, workers=1).jobs["bits"][0]) == (32 * 7850, 32 * (785 * 5 + 60))


def test_what_an_object_of_the_session_needs_is_no_key_in_vain() -> None:
    told = {**CELL, "learning": {"bits": "4 kbit", "learning_rate": 0.1, "model": "mnist-cnn"}, "end": {"rounds": 1}}
    assert simulate(told, dataset=data(IMAGES, LABELS), workers=1).summary["accuracy"] is not None
    assert simulate({**CELL, "allocation": {"channel": "mean"}}, channel=TwiceAsGood).last_round == 4

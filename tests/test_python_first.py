"""netsim as Python code uses it: scenarios made and changed, objects of the session, faults told, results shown."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import netsim
from netsim import InputError, Scenario, load_scenario, simulate
from netsim.allocation import Problem, allocate
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

    from netsim.learning.sources import decoded

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
    with pytest.raises(InputError, match="cannot be taken up again"):
        simulate(CELL, tmp_path / "run", allocation=equal_shares, resume=True)
    with pytest.raises(InputError, match=r'"session:equal_shares" was an object of a Python session'):
        simulate(tmp_path / "run" / "scenario.toml")


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
    assert "netsim/" not in str(fault.value)


MISTAKES = {
    "a number for a scenario": (lambda: simulate(3), "expected a Scenario, the name or the path of one, or a dict"),
    "nothing": (lambda: simulate(None), "found NoneType None"),
    "a list for a scenario": (lambda: Scenario.of([1]), "expected a dict such as"),
    "an unknown name": (lambda: simulate("quickstrat"), 'did you mean "quickstart"'),
    "a missing file": (lambda: simulate("nowhere/cell.toml"), "there is no such file"),
    "a number for a name": (lambda: load_scenario(3), r"Scenario.of\(…\) makes one of a dict"),
    "a text for overrides": (lambda: load_scenario("tiny", "cell.bandwidth=1MHz"), "expected a list such as"),
    "a number for overrides": (lambda: load_scenario("tiny", 3), "or a dict such as"),
    "numbers in overrides": (lambda: load_scenario("tiny", [3]), "expected texts such as cell.bandwidth=10MHz"),
    "an override without a value": (lambda: load_scenario("tiny", ["cell.bandwidth"]), "expected key.path=value"),
    "a key that is a number": (lambda: load_scenario("tiny", {3: 4}), 'expected key paths such as "cell.bandwidth"'),
    "a misspelt key": (lambda: load_scenario("tiny").with_({"cell.bandwith": "1 MHz"}), 'did you mean "bandwidth"'),
    "an object for a value": (lambda: load_scenario("tiny").with_({"cell.bandwidth": object()}), "expected a number"),
    "None for a value": (lambda: load_scenario("tiny").with_({"cell.bandwidth": None}), "expected a number, a text"),
    "a unit that does not fit": (lambda: load_scenario("tiny").with_({"cell.bandwidth": "10 mJ"}), "cell.bandwidth"),
    "an unknown population": (lambda: load_scenario("tiny", {"population.phon.count": 3}), "addressed by its name"),
    "a missing table": (lambda: Scenario.of({"cell": CELL["cell"]}), "population: is missing"),
    "a cohort that is too large": (lambda: Scenario.of({**CELL, "selection": {"method": "fedavg", "cohort": 9}}),
                                   "the scenario has only 8 devices"),
    "a text for a seed": (lambda: simulate("tiny", seed="one"), "seed = expected a whole number from 0 on, found str"),
    "a negative seed": (lambda: simulate("tiny", seed=-1), "from 0 on, found int -1"),
    "half a worker": (lambda: simulate("tiny", workers=0.5), "workers = expected a whole number from 1 on"),
    "a number for a folder": (lambda: simulate("tiny", out=4), "out = expected the path of a folder"),
    "a misspelt argument": (lambda: simulate("tiny", alocation=equal_shares), 'did you mean "allocation"'),
    "a name for an object": (lambda: simulate("tiny", allocation="sao"), "is named in the scenario, as allocation"),
    "a function for a class": (lambda: simulate("tiny", selection=equal_shares), "derive it from netsim.selection"),
    "an instance for a class": (lambda: simulate("tiny", selection=FirstOnes()), "is no selection method: a class"),
    "another function": (lambda: simulate("tiny", allocation=lambda nothing: None), "must be called problem"),
    "a class for a model": (lambda: simulate("quickstart", model=FirstOnes), "is not a torch.nn.Module class"),
    "an unknown dataset": (lambda: simulate("quickstart", dataset="mnsit"), "expected a function or class, found str"),
    "unknown data in a scenario": (lambda: simulate(load_scenario("quickstart", {"learning.dataset": "mnsit"})),
                                   'did you mean "mnist"'),
    "an unknown model": (lambda: simulate(load_scenario("quickstart", {"learning.model": "cnn"})), "unknown model"),
    "an unknown method": (lambda: simulate(load_scenario("tiny", {"allocation.method": "soa"})), 'did you mean "sao"'),
    "models that nobody trains": (lambda: simulate("quickstart", learning=False), "which only learning gives"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_a_sentence(mistake: str) -> None:
    make, told = MISTAKES[mistake]
    with pytest.raises(InputError, match=told) as fault:
        make()
    assert "\n  File" not in str(fault.value)


def test_results_show_themselves_with_units() -> None:
    scenario = Scenario.of(CELL)
    run = simulate(scenario)
    shown = {
        scenario._repr_html_(): ("cell.bandwidth", "10 MHz", "population phone.budget", "60 mJ"),
        run._repr_html_(): ("scenario, seed 0: 4 rounds (finished)", " ms", " mJ"),
        run.breakdown()._repr_html_(): ("compute time", "band used", " %"),
        run.critical_path()._repr_html_(): ("what set the length of", "share of time"),
        run.explain(1)._repr_html_(): ("what holds it up", "what would help", "bandwidth"),
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

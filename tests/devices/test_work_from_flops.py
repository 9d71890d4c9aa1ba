"""Cycles of a job from the model's FLOP per sample, per batch and per sample, computed by hand."""

import json
from contextlib import suppress

import numpy as np
import pytest

from netsim.base.errors import InputError
from netsim.cli import main
from netsim.devices.population import draw_population
from netsim.devices.workload import JobSizes
from netsim.learning.backend import Learning
from netsim.run import Run
from netsim.scenario import load_scenario
from netsim.simulation import simulate

CPU = "population.node.cpu"
AUTO = {f"{CPU}.cycles_per_sample": "auto", f"{CPU}.flops_per_cycle": 2.0}


def cycles(changes, samples=None):
    scenario = load_scenario("tiny", changes)
    population = draw_population(scenario, 0, samples, Learning().flops_per_sample(scenario))
    return JobSizes.of(scenario, population, 1.0).cycles


@pytest.mark.parametrize(("changes", "batches", "samples"), [
    ({"learning.local_iterations": 3, "learning.batch_size": 32}, 3 * 4, 3 * 100),      # 32 + 32 + 32 + 4
    ({"learning.local_steps": 6, "learning.batch_size": 32}, 6, 100 + 64),              # an epoch, then two batches
    ({"learning.local_iterations": 1, "learning.batch_size": 100}, 1, 100),
    ({"learning.local_iterations": 1, "learning.batch_size": 101}, 1, 100),
])
def test_a_batch_costs_cycles_besides_its_samples(changes, batches, samples):
    found = cycles({**changes, f"{CPU}.cycles_per_batch": 7e6})
    assert found.tolist() == [batches * 7e6 + samples * 10_000] * 5


def test_cycles_per_batch_of_zero_is_the_default():
    size = {"learning.batch_size": 30}
    assert np.array_equal(cycles({**size, f"{CPU}.cycles_per_batch": 0}), cycles({}))


@pytest.mark.slow
def test_cycles_follow_from_flops_of_the_model_and_of_the_cpu():
    assert cycles({**AUTO, "learning.flops_per_sample": 3e6}).tolist() == [10 * 100 * 1.5e6] * 5
    digits = {**AUTO, "learning.dataset": "digits", "learning.model": "mnist-cnn", "population.node.samples": 100}
    assert cycles(digits).tolist() == [10 * 100 * 5_511_552 / 2.0] * 5


def test_spread_scales_cycles_per_sample_and_per_batch_of_a_device_alike():
    many = {"population.node.count": 4000, "selection.cohort": 5, f"{CPU}.cycles_per_batch": 1e6,
            "learning.batch_size": 10}
    plain = draw_population(load_scenario("tiny", many), 1)
    spread = draw_population(load_scenario("tiny", {**many, f"{CPU}.spread": 0.5}), 1)
    factor = spread.cycles_per_sample / plain.cycles_per_sample
    assert spread.cycles_per_batch / plain.cycles_per_batch == pytest.approx(factor)
    assert np.log(factor).std() == pytest.approx(0.5, rel=0.05)
    assert np.log(factor).mean() == pytest.approx(0.0, abs=0.03)
    assert np.array_equal(spread.gain, plain.gain)


def test_a_population_may_mix_kinds_with_and_without_an_overhead(tmp_path):
    (tmp_path / "two.toml").write_text("""
        base = "tiny"
        [learning]
        flops_per_sample = 4e6
        batch_size = 50
        [[population]]
        name = "phone"
        count = 2
        cpu = { min = "1 GHz", max = "2 GHz", cycles_per_sample = "auto", flops_per_cycle = 4, cycles_per_batch = 5e6 }
        radio = { power = "100 mW" }
        budget = "1 J"
        samples = 120
    """)
    scenario = load_scenario(tmp_path / "two.toml")
    population = draw_population(scenario, 0, None, 4e6)
    assert population.cycles_per_batch.tolist() == [0.0] * 5 + [5e6] * 2
    assert JobSizes.of(scenario, population, 1.0).cycles.tolist() == [1e7] * 5 + [10 * (3 * 5e6 + 120 * 1e6)] * 2


def test_columns_of_a_device_file(tmp_path):
    (tmp_path / "own.csv").write_text(
        "cpu_min,cpu_max,flops_per_cycle,cycles_per_batch\n1 GHz,2 GHz,2,100\n1 GHz,2 GHz,4,200\n")
    changes = {"population.node.devices": str(tmp_path / "own.csv"), "selection.cohort": 2,
               f"{CPU}.cycles_per_sample": "auto", "learning.flops_per_sample": 8.0, "learning.batch_size": 50,
               "learning.local_iterations": 1}
    assert cycles(changes).tolist() == [2 * 100 + 100 * 4, 2 * 200 + 100 * 2]


@pytest.mark.parametrize(("changes", "words"), [
    ({f"{CPU}.cycles_per_sample": "auto", "learning.flops_per_sample": 1e6}, ["flops_per_cycle", "netsim devices"]),
    ({f"{CPU}.flops_per_cycle": 2.0}, ["flops_per_cycle", '"auto"']),
    (AUTO, ["cycles_per_sample", "learning.flops_per_sample"]),
    ({"learning.flops_per_sample": 1e6}, ["learning.flops_per_sample", '"auto"']),
    ({f"{CPU}.cycles_per_batch": -1}, ["cycles_per_batch", "at least 0"]),
    ({f"{CPU}.cycles_per_sample": "otto"}, ["cycles_per_sample", "otto"]),
    ({f"{CPU}.spread": 4}, ["spread", "at most 3"]),
])
def test_refused(changes, words):
    with pytest.raises(InputError) as refused:
        load_scenario("tiny", changes)
    assert all(word in str(refused.value) for word in words), str(refused.value)


def test_a_batch_size_has_an_effect_without_learning_where_batches_cost_cycles():
    load_scenario("tiny", {f"{CPU}.cycles_per_batch": 1e3, "learning.batch_size": 20})
    with pytest.raises(InputError, match=r"learning\.batch_size"):
        load_scenario("tiny", {"learning.batch_size": 20})


def test_models_lists_parameters_and_flops(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["netsim", "models", "--json"])
    with suppress(SystemExit):
        main()
    found = json.loads(capsys.readouterr().out)
    assert {each["name"]: (each["parameters"], each["flops_per_sample"]) for each in found} == {
        "mnist-cnn": (113_744, 5_511_552), "fashion-cnn": (19_522, 1_824_960), "cifar-cnn": (224_978, 11_106_000)}


def test_flops_of_a_linear_layer_and_of_a_model_with_batch_normalisation():
    from torch import nn

    from netsim.learning.flops import flops_of

    # 12 inputs, 5 outputs: forward, and the gradient of the weights; the images need none
    linear = nn.Sequential(nn.Flatten(), nn.Linear(12, 5))
    assert flops_of(linear, (3, 2, 2)) == 2 * (2 * 12 * 5)
    # 3x3 convolution to 4 channels on 6x6: forward and weights 2 * (4*16) * 9, then a layer of 64 x 5 three times
    deep = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))
    before = {name: value.clone() for name, value in deep.state_dict().items()}
    assert flops_of(deep, (1, 6, 6)) == 2 * (2 * 4 * 16 * 9) + 3 * (2 * 64 * 5)
    assert all(bool((value == before[name]).all()) for name, value in deep.state_dict().items())
    # 8 channels by themselves: forward, images and weights 2 * 8*16 * 9 each, after a 1x1 convolution without images
    class Depthwise(nn.Module):
        def __init__(self):
            super().__init__()
            self.widen, self.last = nn.Conv2d(1, 8, 1), nn.Linear(8, 2)
            self.each = nn.Conv2d(8, 8, 3, padding=1, groups=8)

        def forward(self, images):
            return self.last(self.each(self.widen(images)).mean((2, 3)))

    assert flops_of(Depthwise(), (1, 4, 4)) == 2 * (2 * 8 * 16) + 3 * (2 * 8 * 16 * 9) + 3 * (2 * 8 * 2)
    with pytest.raises(InputError, match="flops_per_sample"):
        flops_of(nn.Sequential(nn.Flatten(), nn.BatchNorm1d(10)), (1, 2, 5))


def test_a_run_without_learning_computes_what_the_model_needs(tmp_path):
    changes = {"learning.dataset": "digits", "learning.model": "fashion-cnn", "learning.local_iterations": 2,
               f"{CPU}.flops_per_cycle": 1.5, f"{CPU}.cycles_per_sample": "auto", "population.node.budget": "50 J",
               "learning.bits": "auto", f"{CPU}.cycles_per_batch": 1e6, "learning.batch_size": 16}
    run = simulate(load_scenario("tiny", changes), tmp_path / "run", learning=False)
    expected = 2 * (7 * 1e6 + 100 * 1_824_960 / 1.5)
    assert run.jobs["cycles"].to_list() == pytest.approx([expected] * len(run.jobs))
    assert run.devices["cycles_per_batch"].to_list() == [1e6] * 5
    assert Run(tmp_path / "run").explain(1).round_s == pytest.approx(run.rounds["round_s"][0])      # replayed

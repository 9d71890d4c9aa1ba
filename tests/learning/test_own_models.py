"""Models that users bring: each is trained as by a plain torch loop, or refused with an advice that works."""

from __future__ import annotations

import os
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from own_models import (
    REFUSED,
    TRAINED,
    Batches,
    Groups,
    Hooked,
    Leaning,
    Mixed,
    MoreParameters,
    Noisy,
    PartlyFrozen,
    Patched,
    Scaled,
    Tiny,
    WrongGradients,
    Zeroed,
)
from refused import refused
from torch import nn
from torch.nn import functional

from netsim import load_scenario, simulate
from netsim.base.errors import InputError
from netsim.base.rng import stream
from netsim.base.types import Floats, Weights
from netsim.learning import datasets
from netsim.learning.batched_network import Network, Standardise, as_shipped
from netsim.learning.datasets import load_dataset
from netsim.learning.local_training import split
from netsim.learning.sgd import Hyperparameters, Task, full_gradient, schedule, train_group
from netsim.models import CifarCNN, FashionCNN, MnistCNN, build_model
from netsim.validation import check_whole

pytestmark = pytest.mark.slow

DEVICES, SEED = 3, 5
SETS = ["population.phone.count=3", "population.phone.samples=24", "learning.batch_size=8",
        "learning.momentum=0.5", "learning.local_epochs=2", "selection.method=fedavg", "selection.cohort=3",
        "end.rounds=2", "learning.bits=auto", "cell.bandwidth=1GHz"]


def scenario_of(kind: type[nn.Module], *more: str) -> Any:
    return load_scenario("quickstart", [*SETS, f"learning.model=own_models:{kind.__name__}", *more])


def in_netsim(scenario: Any, folder: Path) -> tuple[Weights, Floats, float]:
    """The weights, buffers and loss after two rounds."""
    run = simulate(scenario, folder, SEED, workers=1, allow_import=True)
    with np.load(folder / "checkpoint.npz") as state:
        buffers = state["learning/buffers.mean"] if "learning/buffers.mean" in state else np.zeros(0)
        return state["learning/weights"], buffers, run.rounds["loss"].to_list()[-1]


def in_torch(scenario: Any, *, local: bool = False) -> tuple[Weights, Floats, float]:
    """The same by modules of their own and ``torch.optim.SGD``, device by device."""
    settings, data = scenario.learning, load_dataset("digits")
    parts = split(scenario, SEED)
    seed = int(stream(SEED, "initial weights").integers(2**63))
    server = build_model(settings.model, data.shape, data.classes, seed)
    modules = [build_model(settings.model, data.shape, data.classes, seed) for _ in parts]
    inputs = Standardise(data.mean, data.deviation)
    how = Hyperparameters(settings.batch_size, settings.learning_rate, settings.local_epochs)
    shares = [len(part) / sum(map(len, parts)) for part in parts]
    for round_ in (1, 2):
        for device, (part, module) in enumerate(zip(parts, modules, strict=True)):
            _take_over(module, server, buffers=not local)
            rng = stream(SEED, "training", round_, device)
            plan = schedule(Task(device, part, rng), how)
            trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
            optimiser = torch.optim.SGD(trained, settings.learning_rate, settings.momentum)
            torch.manual_seed(int(rng.integers(2**63)))
            module.train()
            for batch in plan.batches:
                optimiser.zero_grad(set_to_none=False)
                for parameter in trained:
                    parameter.grad = torch.zeros_like(parameter)
                loss = functional.cross_entropy(
                    module(inputs(data.train_images[batch])), torch.from_numpy(data.train_labels[batch]))
                loss.backward()     # type: ignore[no-untyped-call]
                optimiser.step()
        _average(server, modules, shares)
    server.eval()
    with torch.no_grad():
        loss = functional.cross_entropy(server(inputs(data.test_images)), torch.from_numpy(data.test_labels))
    return Network(server).weights(), Network(server).buffers.read(), float(loss)


@torch.no_grad()
def _take_over(module: nn.Module, server: nn.Module, *, buffers: bool) -> None:
    for mine, theirs in zip(module.parameters(), server.parameters(), strict=True):
        mine.copy_(theirs)
    for mine, theirs in zip(module.buffers(), server.buffers(), strict=True):
        mine.copy_(theirs if buffers else mine)


@torch.no_grad()
def _average(server: nn.Module, modules: list[nn.Module], shares: list[float]) -> None:
    for part in ("parameters", "buffers"):
        for mine, *theirs in zip(getattr(server, part)(), *(getattr(m, part)() for m in modules), strict=True):
            if torch.equal(theirs[0], theirs[1]):      # a constant may be without bound
                mine.copy_(theirs[0])
            else:
                mean = sum(share * their.double() for share, their in zip(shares, theirs, strict=True))
                mine.copy_(mean if mine.is_floating_point() else mean.round())     # type: ignore[union-attr, arg-type]


@pytest.mark.parametrize("kind", TRAINED, ids=lambda kind: kind.__name__)
def test_two_rounds_are_those_of_a_plain_torch_loop(kind: type[nn.Module], tmp_path: Path) -> None:
    scenario = scenario_of(kind)
    weights, buffers, loss = in_netsim(scenario, tmp_path / "run")
    expected, expected_buffers, expected_loss = in_torch(scenario)
    assert weights == pytest.approx(expected, abs=2e-5, rel=2e-4)
    assert loss == pytest.approx(expected_loss, rel=1e-3)
    np.testing.assert_allclose(buffers, expected_buffers, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [Groups, Tiny], ids=lambda kind: kind.__name__)
def test_training_leaves_the_initial_weights_and_the_gradient_is_autograds(kind: type[nn.Module]) -> None:
    """A module that is trained alone shares its memory with the weights in training."""
    data, samples = load_dataset("digits"), np.arange(20)
    network = Network(build_model(f"own_models:{kind.__name__}", data.shape, data.classes), data.shape)
    before = network.weights()
    how = Hyperparameters(8, 0.1)
    update, = train_group(network, data, before, [Task(0, samples, stream(0, "training", 1, 0))], how)
    assert np.array_equal(network.weights(), before)
    assert not np.array_equal(update.weights, before)
    inputs = Standardise(data.mean, data.deviation)(data.train_images[samples])
    for weights in (before, update.weights):
        module = build_model(f"own_models:{kind.__name__}", data.shape, data.classes)
        nn.utils.vector_to_parameters(torch.from_numpy(weights.copy()), module.parameters())
        functional.cross_entropy(module(inputs), torch.from_numpy(data.train_labels[samples])).backward()
        expected = np.concatenate([part.grad.numpy().ravel() for part in module.parameters()])     # type: ignore[union-attr]
        assert full_gradient(network, data, weights, samples) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_a_built_in_model_extended_by_a_scalar_learns_and_a_mute_one_stays_at_chance(tmp_path: Path) -> None:
    four_rounds = {kind: simulate(load_scenario(
        "quickstart", [f"learning.model=own_models:{kind}", "end.rounds=4"]), tmp_path / kind, workers=1,
        allow_import=True).rounds["accuracy"].to_list() for kind in ("Scaled", "Mute")}
    assert four_rounds["Scaled"][-1] > 0.3
    assert len(set(four_rounds["Mute"])) == 1
    assert four_rounds["Mute"][-1] < 0.12      # ten classes


def test_buffers_may_stay_on_their_devices(tmp_path: Path) -> None:
    scenario = scenario_of(Batches, "learning.buffers=local")
    weights, buffers, loss = in_netsim(scenario, tmp_path / "run")
    expected, expected_buffers, expected_loss = in_torch(scenario, local=True)
    assert weights == pytest.approx(expected, abs=2e-5, rel=2e-4)
    assert buffers == pytest.approx(expected_buffers, rel=1e-4)
    assert loss == pytest.approx(expected_loss, rel=1e-3)
    with np.load(tmp_path / "run" / "checkpoint.npz") as state:
        assert len(np.unique(state["learning/buffers.own"], axis=0)) == DEVICES
    one = [in_netsim(scenario_of(Batches, "selection.cohort=1", f"learning.buffers={how}"), tmp_path / how)
           for how in ("local", "average")]
    assert one[0][0] == pytest.approx(one[1][0])       # it learns by its batches' own statistics
    assert not np.allclose(one[0][1], one[1][1])       # but ends from its own, or from everybody's


def test_buffers_that_are_sent_count_in_the_upload(tmp_path: Path) -> None:
    bits = {how: simulate(scenario_of(Batches, *how), tmp_path / str(len(how)), SEED, workers=1, allow_import=True)
            .jobs["bits"][0] for how in ((), ("learning.buffers=local",))}
    assert bits[()] - bits["learning.buffers=local",] == 32 * 2 * 12      # a mean and a variance for each of 12


def test_a_run_with_buffers_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    def stop(at: Any) -> None:
        raise StopError

    for how in ("average", "local"):
        scenario = scenario_of(Batches, f"learning.buffers={how}")
        whole = in_netsim(scenario, tmp_path / f"{how}-whole")
        with pytest.raises(StopError):
            simulate(scenario, tmp_path / how, SEED, workers=1, allow_import=True, progress=stop)
        simulate(scenario, tmp_path / how, SEED, workers=1, allow_import=True, resume=True)
        with np.load(tmp_path / how / "checkpoint.npz") as state:
            assert state["learning/weights"].tobytes() == whole[0].tobytes()
            assert state["learning/buffers.mean"].tobytes() == whole[1].tobytes()


def test_the_number_of_workers_changes_nothing_with_buffers_and_frozen_parts(tmp_path: Path) -> None:
    for kind in (Batches, PartlyFrozen):
        hashes = {simulate(scenario_of(kind), tmp_path / f"{kind.__name__}{workers}", SEED, workers=workers,
                           allow_import=True).summary["trace_sha256"] for workers in (1, 2)}
        assert len(hashes) == 1


@pytest.mark.parametrize(("kind", "says", "mended"), REFUSED, ids=lambda it: getattr(it, "__name__", None))
def test_what_is_refused_says_what_helps_and_that_helps(
    kind: type[nn.Module], says: str, mended: type[nn.Module], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=says) as refusal:
        in_netsim(scenario_of(kind), tmp_path / "run")
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "run" / "checkpoint.npz").exists()
    in_netsim(scenario_of(mended), tmp_path / "mended")


@pytest.mark.parametrize(("kind", "says", "mended"), REFUSED)
def test_a_check_says_what_a_run_would(kind: type[nn.Module], says: str, mended: type[nn.Module]) -> None:
    with pytest.raises(InputError, match=says):
        check_whole(scenario_of(kind), allow_import=True)
    check_whole(scenario_of(mended), allow_import=True)


@pytest.mark.parametrize(("wrong", "says"), [
    (["learning.buffers=local"], "keeps no buffers"),
    (["selection.method=divergence", "selection.layer=fc9.weight"], "fc9.weight")])
def test_a_check_knows_the_layers_and_buffers_of_a_built_in_model(wrong: list[str], says: str) -> None:
    check_whole(load_scenario("quickstart"))
    with pytest.raises(InputError, match=says):
        check_whole(load_scenario("quickstart", wrong))


def test_a_check_reads_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*words: object) -> None:
        raise AssertionError("the data were read")

    monkeypatch.setattr(datasets, "_load", read)
    check_whole(load_scenario("quickstart", ["learning.dataset=cifar10", "learning.model=cifar-cnn"]))
    check_whole(load_scenario("quickstart", ["learning.dataset=image-folder", "learning.root=nowhere"]))


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10", "digits"])
def test_what_is_known_of_datasets_is_so(name: str) -> None:
    try:
        data = load_dataset(name, os.environ.get("NETSIM_DATA", datasets.ROOT))
    except InputError:
        pytest.skip(f"{name} is not here")
    assert datasets.KNOWN[name] == (data.shape, data.classes)


def test_a_lone_sample_is_refused_before_the_first_round_where_the_model_needs_two(tmp_path: Path) -> None:
    lone = ["population.phone.samples=25"]
    with refused("conflict", "learning.batch_size") as refusal:
        in_netsim(scenario_of(Batches, *lone), tmp_path / "run")
    assert "device of 25 samples" in str(refusal.value)
    assert "batch_size = 9" in refusal.value.hint
    in_netsim(scenario_of(Batches, *lone, "learning.batch_size=9"), tmp_path / "mended")
    in_netsim(scenario_of(Groups, *lone), tmp_path / "groups")


def test_a_key_for_buffers_without_buffers_has_no_effect_and_says_so(tmp_path: Path) -> None:
    with refused("no-effect", "learning.buffers"):
        in_netsim(scenario_of(Groups, "learning.buffers=local"), tmp_path / "run")
    with refused("no-effect", "learning.buffers"):
        load_scenario("tiny", ["learning.buffers=local"])


@pytest.mark.parametrize("kind", [Zeroed, Noisy, Leaning, MoreParameters, Scaled, Mixed, Hooked, Patched],
                         ids=lambda kind: kind.__name__)
def test_a_class_that_computes_something_else_is_not_computed_as_its_parent(kind: type[nn.Module]) -> None:
    module = kind((1, 16, 16), 4)
    assert not Network(module, (1, 16, 16)).grouped
    network, images = Network(module, (1, 16, 16)), torch.randn(3, 1, 16, 16)
    stack = network.stack(network.weights())
    for training in (True, False):
        module.train(training)
        assert torch.equal(network.logits(stack, images), module(images))


def test_a_class_that_computes_as_its_parent_still_goes_in_groups() -> None:
    grey, colour = (1, 28, 28), (3, 32, 32)
    for kind, shape in ((Tiny, (1, 16, 16)), (MnistCNN, grey), (FashionCNN, grey), (CifarCNN, colour)):
        network = Network(kind(shape, 10), shape)
        assert network.grouped
        assert network._ways[1] is not None
    wrong = Network(WrongGradients((1, 16, 16), 4), (1, 16, 16))
    assert wrong.grouped
    assert wrong._ways[1] is None


def test_a_built_in_class_that_was_changed_is_computed_as_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a notebook one may put another forward on a class of ours, which is not tried before every run."""
    scenario = load_scenario("quickstart", ["learning.model=fashion-cnn", "end.rounds=1"])
    usual = in_netsim(scenario, tmp_path / "usual")
    assert as_shipped(FashionCNN)
    forward = FashionCNN.forward
    monkeypatch.setattr(FashionCNN, "forward", wraps(forward)(lambda self, images: 2.0 * forward(self, images)))
    changed = in_netsim(scenario, tmp_path / "changed")
    assert not as_shipped(FashionCNN)
    assert (changed[0] != usual[0]).any()


def test_trying_a_model_leaves_its_buffers_as_they_were() -> None:
    model = build_model("own_models:Batches", (1, 8, 8), 10, seed=1)
    assert torch.equal(model.body[1].running_mean, torch.zeros(12))     # type: ignore[index, union-attr]
    assert model.training


@pytest.mark.parametrize("buffers", ["average", "local"])
@pytest.mark.parametrize("server", [["server.kind=fedasync"], ["server.kind=fedbuff", "server.buffer=2"]])
def test_buffers_under_servers_that_do_not_wait(server: list[str], buffers: str, tmp_path: Path) -> None:
    """They go with the version that a job starts from, and through a cut with jobs under way."""
    scenario = scenario_of(Batches, *server, f"learning.buffers={buffers}", "end.rounds=5")

    def stop(at: Any) -> None:
        if at.round == 2:
            raise KeyboardInterrupt

    whole = simulate(scenario, tmp_path / "whole", seed=SEED, workers=1, allow_import=True)
    with pytest.raises(KeyboardInterrupt):
        simulate(scenario, tmp_path / "cut", seed=SEED, workers=1, progress=stop, allow_import=True)
    again = simulate(scenario, tmp_path / "cut", seed=SEED, workers=1, resume=True, allow_import=True)
    assert again.summary["trace_sha256"] == whole.summary["trace_sha256"]
    with np.load(whole.path / "checkpoint.npz") as there, np.load(again.path / "checkpoint.npz") as here:
        assert (there["learning/buffers.mean"] > 0).any()
        for name in there.files:
            np.testing.assert_array_equal(there[name], here[name])

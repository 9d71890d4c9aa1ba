"""The paper's networks, parameter by parameter, and models that do not fit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from refused import refused
from torch import Tensor, nn

from netsim.base.errors import InputError
from netsim.learning.batched_network import Network
from netsim.models import CNN, build_model

COUNTS = {
    "mnist-cnn": ((1, 28, 28), [375, 15, 10500, 28, 100352, 224, 2240, 10], 113744),
    "cifar-cnn": ((3, 32, 32), [1125, 15, 10500, 28, 210000, 300, 3000, 10], 224978),
    "fashion-cnn": ((1, 28, 28), [250, 10, 3000, 12, 15360, 80, 800, 10], 19522),
}


@pytest.mark.parametrize("name", COUNTS)
def test_every_parameter_count_is_the_papers(name: str) -> None:
    shape, counts, total = COUNTS[name]
    model = build_model(name, shape, 10)
    names = [f"{layer}.{kind}" for layer in ("conv1", "conv2", "fc1", "fc2") for kind in ("weight", "bias")]
    assert {n: p.numel() for n, p in model.named_parameters()} == dict(zip(names, counts, strict=True))
    assert sum(counts) == total


def test_starting_values_follow_the_seed_and_the_papers_code() -> None:
    one, same, other = (dict(build_model("mnist-cnn", (1, 28, 28), 10, seed).named_parameters()) for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["fc1.weight"], other["fc1.weight"])
    assert torch.all(one["conv1.bias"] == 0.1)
    assert torch.all(one["fc2.bias"] == 0)
    assert float(one["fc1.weight"].detach().std()) == pytest.approx(0.01, rel=0.02)
    bound = (6 / (25 * (1 + 15))) ** 0.5    # Xavier: sqrt(6 / (fan in + fan out))
    assert 0.9 * bound < float(one["conv1.weight"].detach().abs().max()) <= bound


def test_building_a_model_leaves_the_global_random_state_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    build_model("fashion-cnn", (1, 28, 28), 10)
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.slow
def test_a_group_of_models_answers_as_each_alone() -> None:
    models = [build_model("fashion-cnn", (1, 28, 28), 10, seed) for seed in (1, 2, 3)]
    images = torch.randn(3, 4, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    stacked = [torch.stack(parameters) for parameters in zip(*(m.parameters() for m in models), strict=True)]
    together = CNN.forward_group(stacked, images.squeeze(2).transpose(0, 1))
    for model, own_images, answer in zip(models, images, together, strict=True):
        torch.testing.assert_close(answer, model(own_images), rtol=1e-5, atol=1e-6)


def test_the_network_is_convolution_relu_pooling_and_two_linear_layers() -> None:
    model = build_model("cifar-cnn", (3, 32, 32), 10, seed=3)
    layers = dict(model.named_children())
    plain = nn.Sequential(
        layers["conv1"], nn.ReLU(), nn.MaxPool2d(2), layers["conv2"], nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), layers["fc1"], nn.ReLU(), layers["fc2"],
    )    # fmt: skip
    images = torch.randn(5, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model(images), plain(images), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", COUNTS)
def test_gradients_by_hand_are_those_of_autograd(name: str) -> None:
    shape, chance = COUNTS[name][0], torch.Generator().manual_seed(0)
    models = [build_model(name, shape, 10, seed) for seed in (1, 2)]
    stacked = [torch.stack(parameters).detach() for parameters in zip(*(m.parameters() for m in models), strict=True)]
    images = torch.randn(4, 2 * shape[0], *shape[1:], generator=chance).contiguous(memory_format=torch.channels_last)
    images[:, :, :14] = 0.5                                                  # a plain background: maxima with equals
    labels = torch.randint(10, (8,), generator=chance)
    share = torch.tensor([[0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0]])   # the second device has but two samples
    by_hand, gradients = CNN.gradients_group(stacked, images, labels, share)
    leaves = [parameter.requires_grad_() for parameter in stacked]
    losses = nn.functional.cross_entropy(CNN.forward_group(leaves, images).flatten(0, 1), labels, reduction="none")
    loss = (losses.view(2, 4) * share).sum(dim=1)
    torch.testing.assert_close(by_hand, loss.detach(), rtol=1e-6, atol=0)
    for found, expected in zip(gradients, torch.autograd.grad(loss.sum(), leaves), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


def test_a_model_made_from_another_does_not_take_over_its_gradients() -> None:
    class Doubled(CNN):
        channels = (2, 2)
        hidden = 4

        @staticmethod
        def forward_group(parameters: Sequence[Tensor], images: Tensor) -> Tensor:
            return 2 * CNN.forward_group(parameters, images)

    class Small(CNN):
        channels = (2, 2)
        hidden = 4

    labels, share, images = torch.tensor([3, 7]), torch.tensor([[0.5, 0.5]]), torch.ones(2, 1, 16, 16)
    losses = []
    for kind in (Small, Doubled):
        network = Network(kind((1, 16, 16), 10))
        leaves = [parameter.requires_grad_() for parameter in network.stack(np.full(network.size, 0.1, np.float32))]
        leaves[-1].data[0, 3] = 1.0
        losses.append(float(network.gradients(leaves, images, labels, share)[0]))
    logits = torch.full((10,), 0.1)
    logits[3] = 1.0
    expected = [-float((s * logits).log_softmax(0)[[3, 7]].mean()) for s in (1.0, 2.0)]
    assert losses == pytest.approx(expected, rel=1e-5)


class WrongClasses(nn.Module):
    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(shape[0] * shape[1] * shape[2], 7)

    def forward(self, images: Tensor) -> Tensor:
        answer: Tensor = self.layer(images.flatten(1))
        return answer


class RightClasses(WrongClasses):
    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__(shape, classes)
        self.layer = nn.Linear(shape[0] * shape[1] * shape[2], classes)


class Frozen(RightClasses):
    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__(shape, classes)
        self.requires_grad_(False)


class Unused(RightClasses):
    def __init__(self, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__(shape, classes)
        self.spare = nn.Linear(3, 3)


class Detached(RightClasses):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).detach()


@pytest.mark.parametrize(
    ("name", "side", "code", "key"),
    [
        ("mnist-cnn", 12, "out-of-range", "learning.model"),
        ("my_models:WrongClasses", 28, "wrong-answer", "model my_models:WrongClasses"),
        ("my_models:Frozen", 28, "wrong-interface", "model my_models:Frozen"),
        ("my_models:Unused", 28, "no-effect", "model my_models:Unused: spare.weight, spare.bias"),
        ("my_models:Detached", 28, "wrong-interface", "model my_models:Detached"),
        ("os:system", 28, "wrong-interface", "model os:system"),
    ],
)
def test_a_model_that_does_not_fit(name: str, side: int, code: str, key: str, users_package: None) -> None:
    with refused(code, key):
        build_model(name, (1, side, side), 10)


@pytest.mark.parametrize("name", [
    "mnist-cn", "venv.__main__:x", "my_models:nothing", "my_models:broken name", "my_missing_package:Net"])
def test_a_model_that_is_not_there(name: str, users_package: None) -> None:
    with pytest.raises(InputError, match="learning.model|model"):
        build_model(name, (1, 28, 28), 10)


@pytest.fixture
def users_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module my_models that is installed, as far as Python can tell."""
    from types import ModuleType

    module = ModuleType("my_models")
    module.WrongClasses = WrongClasses  # type: ignore[attr-defined]
    for kind in (Frozen, Unused, Detached):
        setattr(module, kind.__name__, kind)
    monkeypatch.setitem(sys.modules, "my_models", module)


def test_a_python_file_beside_the_scenario_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside.py").write_text("import pathlib; pathlib.Path('run').touch()\nNet = None\n")
    monkeypatch.setitem(sys.modules, "beside", None)    # so that it is forgotten again after the test
    del sys.modules["beside"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    with pytest.raises(InputError, match="must be installed"):
        build_model("beside:Net", (1, 28, 28), 10)
    assert not (tmp_path / "run").exists()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    with refused("wrong-interface", "model beside:Net"):
        build_model("beside:Net", (1, 28, 28), 10)
    assert (tmp_path / "run").exists()

"""Own data in any memory layout and type: images, features, tokens and torch's datasets."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from refused import refused
from torch import nn
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import Subset, TensorDataset

from netsim import simulate
from netsim.learning.batched_network import Standardise
from netsim.learning.dataset_files import decoded
from netsim.learning.datasets import load_dataset
from netsim.learning.torch_datasets import from_torch

RNG = np.random.default_rng(3)
GREY = RNG.integers(0, 256, (30, 5, 4)).astype(np.uint8)
LABELS = np.arange(30) % 2
LEARNS = {
    "cell": {"radius": "300 m", "bandwidth": "10 MHz"},
    "population": [{"name": "phone", "count": 4, "cpu": {"min": "0.2 GHz", "max": "2 GHz", "cycles_per_sample": 2e4},
                    "radio": {"power": "23 dBm"}, "budget": "60 mJ", "samples": 60}],
    "learning": {"bits": "auto", "dataset": "digits", "model": "mnist-cnn", "local_iterations": 2,
                 "learning_rate": 1.0, "batch_size": 10},
    "selection": {"method": "fedavg", "cohort": 4}, "end": {"rounds": 4},
}


def two(images, labels=LABELS, train=20):
    return decoded(images, labels, train, ["a", "b"])


def inputs(data):
    return Standardise(data.mean, data.deviation)(data.train_images)


@pytest.mark.parametrize("layout", [
    lambda images: np.asfortranarray(images), lambda images: np.moveaxis(np.ascontiguousarray(images.T), -1, 0).
    transpose(0, 2, 1), lambda images: np.repeat(images, 2, axis=0)[::2]])
def test_the_memory_layout_of_images_does_not_matter(layout) -> None:
    odd = layout(GREY)
    assert not odd.flags.c_contiguous
    assert (odd == GREY).all()
    assert torch.equal(inputs(two(odd)), inputs(two(GREY)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int64])
def test_float_images_are_standardised_as_bytes_are(dtype) -> None:
    data = two(GREY.astype(dtype))
    assert (data.shape, data.train_images.dtype) == ((1, 5, 4), np.float32)
    assert torch.allclose(inputs(data), inputs(two(GREY)), atol=1e-5)
    assert torch.allclose(inputs(two(GREY / 255)), inputs(two(GREY)), atol=1e-5)      # nor does their scale


def test_features_are_standardised_one_by_one() -> None:
    table = np.stack([np.arange(30.0), 1e6 * np.arange(30), np.full(30, 7.0)], axis=1)
    data = two(table)
    assert (data.shape, data.tokens) == ((3,), False)
    expected = (np.arange(20) - 9.5) / np.sqrt((20**2 - 1) / 12)       # uniform whole numbers; a constant becomes 0
    assert np.allclose(inputs(data), np.stack([expected, expected, np.zeros(20)], axis=1), atol=1e-6)


def test_tokens_stay_whole_numbers() -> None:
    tokens = RNG.integers(0, 50, (30, 6)).astype(np.uint16)
    data = two(tokens)
    assert (data.shape, data.tokens) == ((6,), True)
    assert inputs(data).dtype == torch.int64
    assert (inputs(data).numpy() == tokens[:20]).all()


@pytest.mark.parametrize("array", [GREY / 255, GREY.reshape(30, 20) / 7, GREY.reshape(30, 20).astype(np.int32)])
def test_a_file_of_arrays_holds_what_a_function_may_return(tmp_path, array) -> None:
    np.savez(tmp_path / "mine.npz", train_images=array[:20], train_labels=LABELS[:20], test_images=array[20:],
             test_labels=LABELS[20:])
    for _ in range(2):      # read, then taken from the cache
        stored, made = load_dataset("arrays", tmp_path), two(array)
        assert stored.train_images.dtype == made.train_images.dtype
        assert stored.tokens == made.tokens
        assert (stored.test_images == made.test_images).all()
        assert (stored.mean == made.mean).all()


class Pictures(TorchDataset):
    """Images (channels, height, width), as torchvision's transforms return them."""

    classes = ("a", "b")

    def __init__(self, images, labels):
        self.images, self.labels = torch.from_numpy(images).permute(0, 3, 1, 2), labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, at):
        return self.images[at].float() / 255, torch.tensor(self.labels[at])


def test_a_torch_dataset_is_read_in_torchs_order_of_axes() -> None:
    colour = RNG.integers(0, 256, (30, 5, 4, 3)).astype(np.uint8)
    whole = Pictures(colour, LABELS)
    data = from_torch(Subset(whole, range(20)), Subset(whole, range(20, 30)))
    assert (data.shape, data.names) == ((3, 5, 4), ("0", "1"))
    assert torch.allclose(inputs(data), inputs(two(colour)), atol=1e-5)
    assert from_torch(whole, whole).names == ("a", "b")
    assert from_torch(TensorDataset(torch.arange(6).view(3, 2), torch.tensor([0, 1, 1])), whole_tokens()).tokens


def whole_tokens():
    return [(np.array([1, 2]), 0), (np.array([3, 4]), 1)]


@pytest.mark.parametrize(("train", "code", "key"), [
    ([], "wrong-type", "training set"),
    ([1, 2], "wrong-type", "training set, sample 0"),
    ([(np.zeros(2), 0), (np.zeros(3), 1)], "conflict", "training set, sample 1"),
    ([(np.zeros(2), 0.5)], "wrong-type", "training set, sample 0"),
    ([("word", 0)], "wrong-type", "training set, sample 0"),
    ([(np.zeros(5), 0)], "conflict", "test set"),
])
def test_torch_datasets_that_do_not_fit_are_refused(train, code, key) -> None:
    with refused(code, key):
        from_torch(train, whole_tokens())


class Perceptron(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.last = nn.Linear(math.prod(shape), classes)

    def forward(self, rows):
        return self.last(rows.flatten(1))


class Bag(nn.Module):
    """Mean embedding of the tokens."""

    def __init__(self, shape, classes):
        super().__init__()
        self.embed, self.last = nn.Embedding(40, 6), nn.Linear(6, classes)

    def forward(self, tokens):
        return self.last(self.embed(tokens).mean(dim=1))


def features(root):
    labels = np.arange(300) % 2
    return two(np.random.default_rng(0).normal(size=(300, 6)) * 1e-3 + 2e-3 * labels[:, None], labels, 260)


def words(root):
    labels = np.arange(300) % 2
    return two(np.random.default_rng(0).integers(0, 20, (300, 8)) + 20 * labels[:, None], labels, 260)


def pairs(root):
    whole = TensorDataset(torch.from_numpy(features(root).train_images.T.copy()).T, torch.arange(260) % 2)
    return Subset(whole, range(240)), Subset(whole, range(240, 260))


@pytest.mark.slow
@pytest.mark.parametrize(("dataset", "model"), [(features, Perceptron), (words, Bag), (pairs, Perceptron)])
def test_devices_learn_from_features_tokens_and_torch_datasets(dataset, model) -> None:
    run = simulate(LEARNS, dataset=dataset, model=model, workers=1)
    assert run.rounds["accuracy"][-1] > 0.95

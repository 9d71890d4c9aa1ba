"""Model, data and training in numpy."""

from functools import cache

import numpy as np
from sklearn.datasets import load_digits

HELD_BACK = 297          # of the 1,797 images, for the test of the server
PIXELS, HIDDEN, DIGITS = 64, 32, 10
Model = list[np.ndarray]


def make_model() -> Model:
    """Initialize one hidden layer and the output layer: weights and biases of each."""
    return [np.random.normal(0.0, 0.1, (PIXELS, HIDDEN)).astype(np.float32), np.zeros(HIDDEN, np.float32),  # noqa: NPY002
            np.random.normal(0.0, 0.1, (HIDDEN, DIGITS)).astype(np.float32), np.zeros(DIGITS, np.float32)]  # noqa: NPY002


@cache
def data() -> tuple[np.ndarray, np.ndarray]:
    """Load all images in a fixed random order, with pixels between 0 and 1."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    return (images[order] / 16.0).astype(np.float32), labels[order]


def part(partition: int, partitions: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the samples of one device: every ``partitions``-th one, starting at its number."""
    images, labels = data()
    return images[HELD_BACK + partition::partitions], labels[HELD_BACK + partition::partitions]


def test_part() -> tuple[np.ndarray, np.ndarray]:
    images, labels = data()
    return images[:HELD_BACK], labels[:HELD_BACK]


def forward(model: Model, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the hidden activations and the probabilities of the digits."""
    hidden = np.maximum(images @ model[0] + model[1], 0.0)
    scores = hidden @ model[2] + model[3]
    chances = np.exp(scores - scores.max(1, keepdims=True))
    return hidden, chances / chances.sum(1, keepdims=True)


def train(model: Model, images: np.ndarray, labels: np.ndarray, *, epochs: int, rate: float, batch: int) -> float:
    """Run SGD on shuffled batches, in place, and return the loss of the last epoch."""
    losses = [0.0]
    for _ in range(epochs):
        losses = []
        order = np.random.permutation(len(labels))      # noqa: NPY002
        for rows in np.array_split(order, -(-len(order) // batch)):
            hidden, error = forward(model, images[rows])
            losses.append(float(-np.log(error[np.arange(len(rows)), labels[rows]]).mean()))
            error[np.arange(len(rows)), labels[rows]] -= 1.0
            error /= len(rows)
            back = (error @ model[2].T) * (hidden > 0.0)
            for values, step in zip(
                    model, (images[rows].T @ back, back.sum(0), hidden.T @ error, error.sum(0)), strict=True):
                values -= np.float32(rate) * step
    return sum(losses) / len(losses)


def test(model: Model, images: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Return loss and accuracy."""
    _, chances = forward(model, images)
    return (float(-np.log(chances[np.arange(len(labels)), labels]).mean()),
            float((chances.argmax(1) == labels).mean()))

"""Files that some of Flower's apps expect beside their code, with synthetic content; used by flower_apps.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

DIGITS = {"MNIST": (28, 1), "SVHN": (32, 3), "USPS": (16, 1), "SynthDigits": (32, 3), "MNIST_M": (28, 3)}


def prepare(app: str, folder: Path) -> None:
    """Write the files of an app into its folder, if it needs some."""
    FILES.get(app, lambda folder: None)(folder)


def network_logs(folder: Path) -> None:
    """Write the table of Linux processes that statavg classifies."""
    import pandas

    rng, count = np.random.default_rng(1), 1500
    kind = rng.integers(0, 6, count)
    numbers = {f"column {number}": rng.standard_normal(count) + kind * (number % 3) for number in range(8)}
    (folder / "dataset").mkdir(exist_ok=True)
    pandas.DataFrame({"PID": np.arange(count), "CMD": "program", **numbers, "label": (kind > 0).astype(int),
                      "type": [f"kind {number}" for number in kind]}).to_csv(folder / "dataset" / "dataset.csv",
                                                                            index=False)


def partitions_of_digits(folder: Path) -> None:
    """Write the five sets of digits of fedbn, in ten partitions each."""
    rng = np.random.default_rng(1)
    for name, (side, channels) in DIGITS.items():
        patterns = rng.integers(0, 256, (10, side, side, channels))
        place = folder / "data" / name / "partitions"
        place.mkdir(parents=True)
        for file in [*(place / f"train_part{part}.pkl" for part in range(10)), place.parent / "test.pkl"]:
            labels = rng.integers(0, 10, 64)
            noise = rng.integers(0, 256, (64, side, side, channels))
            images = ((patterns[labels] + noise) // 2).astype(np.uint8)
            both = np.empty(2, object)
            both[:] = [images[..., 0] if channels == 1 else images, labels[:, None]]
            both.dump(file)


def medical_images(folder: Path) -> None:
    """Write the images of MedNIST, in six classes."""
    _images(folder / "MedNIST", ["AbdomenCT", "BreastMRI", "CXR", "ChestCT", "Hand", "HeadCT"], 30, "jpeg")


def folders_of_digits(folder: Path) -> None:
    """Write the images of MNIST as fastai stores them."""
    for part in ("training", "testing"):
        _images(folder / "mnist" / part, list("0123456789"), 20, "png")


def iris(folder: Path) -> None:
    """Write the table of e2e-pandas, whose sums the app checks."""
    from sklearn.datasets import load_iris

    (folder / "data").mkdir()
    rows = "".join(f"{long},{wide}\n" for long, wide in load_iris().data[:, :2].tolist())
    (folder / "data" / "client.csv").write_text(f"sepal length (cm),sepal width (cm)\n{rows}")


def fewer_rows(folder: Path) -> None:
    """Let xgboost-comprehensive put 100 rows aside for tests, instead of 500,000 of the eleven millions."""
    file = folder / "xgboost_comprehensive" / "task.py"
    text = file.read_text()
    assert "500_000" in text
    file.write_text(text.replace("500_000", "100"))


def _images(folder: Path, classes: list[str], count: int, kind: str) -> None:
    from PIL import Image

    rng = np.random.default_rng(1)
    for name in classes:
        (folder / name).mkdir(parents=True)
        pattern = rng.integers(0, 256, (64, 64))
        for number in range(count):
            pixels = ((pattern + rng.integers(0, 256, (64, 64))) // 2).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number:03d}.{kind}")


FILES: dict[str, Callable[[Path], Any]] = {
    "statavg": network_logs, "fedbn": partitions_of_digits, "quickstart-monai": medical_images, "e2e-pandas": iris,
    "xgboost-comprehensive": fewer_rows, "e2e-fastai": folders_of_digits}

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


def iris(folder: Path) -> None:
    """Write the table of e2e-pandas, in the folder above the app and in the app's."""
    rng = np.random.default_rng(1)
    text = "sepal length (cm),sepal width (cm)\n" + "".join(
        f"{long:.1f},{wide:.1f}\n" for long, wide in rng.normal((5.8, 3.0), (0.8, 0.4), (150, 2)))
    for place in (folder / "data", folder.parent / "data"):
        place.mkdir(exist_ok=True)
        (place / "client.csv").write_text(text)


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
    "statavg": network_logs, "fedbn": partitions_of_digits, "quickstart-monai": medical_images, "e2e-pandas": iris}

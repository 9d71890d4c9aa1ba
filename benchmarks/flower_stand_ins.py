"""Local stand-ins for what Flower's example apps download; benchmarks/flower_apps.py puts it on the module path.

As ``sitecustomize`` it is imported by every process. It replaces ``datasets.load_dataset`` by synthetic datasets with
the same columns, in which the label can be learned; downloaded weights by the initial ones; and it declares two
operators that torchvision's CUDA wheel misses on a machine without CUDA. It writes what every ClientApp replies to
files, one for each node. Nothing else is changed.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

SAMPLES = {"train": 1200, "test": 240}
FEW = {"oxford-flowers": {"train": 80, "test": 20}}      # large images
# by a part of the dataset's name: columns of image and label, side and channels of an image, number of classes
IMAGES = {
    "oxford-flowers": ("image", "label", 64, 3, 102), "cifar100": ("img", "fine_label", 32, 3, 100),
    "cifar10": ("img", "label", 32, 3, 10),
    "fashion_mnist": ("image", "label", 28, 1, 10), "mnist": ("image", "label", 28, 1, 10),
}
IRIS = {"SepalLengthCm": (5.8, 0.8), "SepalWidthCm": (3.0, 0.4), "PetalLengthCm": (3.7, 1.7),
        "PetalWidthCm": (1.2, 0.7)}
PEOPLE = {"age": 50, "bmi": 25, "systolic_bp": 120, "diastolic_bp": 80, "ldl_cholesterol": 110, "hba1c": 5}
ADULT = {
    "workclass": ["Private", "State-gov", "Self-emp"], "education": ["HS-grad", "Bachelors", "Masters"],
    "marital.status": ["Married", "Divorced", "Widowed"], "occupation": ["Sales", "Tech-support", "Craft-repair"],
    "relationship": ["Husband", "Wife", "Unmarried"], "race": ["A", "B", "C"], "sex": ["Male", "Female"],
    "native.country": ["United-States", "Mexico", "India"],
}

WORDS = [f"word{number}" for number in range(100)]      # the first of each pair is in good reviews


def columns_of(name: str, split: str) -> tuple[dict[str, Any], Any]:
    """Return the columns of a split of a dataset, and their features if they are not plain."""
    import numpy as np

    rng = np.random.default_rng(sorted(SAMPLES).index(split) + 1)
    count = next((few for known, few in FEW.items() if known in name), SAMPLES)[split]
    for known, (image, label, side, channels, classes) in IMAGES.items():
        if known in name:
            return _images(rng, count, image, label, side, channels, classes)
    label = rng.integers(0, 2, count)
    if "iris" in name:
        kind = rng.integers(0, 3, count)
        columns = {column: (mean + sd * (kind - 1 + 0.3 * rng.standard_normal(count))).round(1)
                   for column, (mean, sd) in IRIS.items()}
        if name.startswith("hitorilabs"):
            names = ("sepal_length", "sepal_width", "petal_length", "petal_width")
            return {**dict(zip(names, columns.values(), strict=True)), "species": kind}, None
        return {"Id": np.arange(count), **columns, "Species": [f"Iris-{number}" for number in kind]}, None
    if "titanic" in name:
        return {"Survived": label, "Pclass": rng.integers(1, 4, count),
                "Name": [f"Mr. Person {number}" for number in range(count)],
                "Sex": np.where(label ^ (rng.random(count) < 0.2), "female", "male"),
                "Age": rng.uniform(1, 80, count).round(), "Siblings/Spouses Aboard": rng.integers(0, 3, count),
                "Parents/Children Aboard": rng.integers(0, 3, count), "Fare": rng.exponential(30, count).round(2)}, None
    if "adult-census" in name:
        numbers = {"age": rng.integers(17, 80, count), "fnlwgt": rng.integers(10_000, 900_000, count),
                   "education.num": 8 + 3 * label + rng.integers(0, 5, count),
                   "capital.gain": 5_000 * label * rng.integers(0, 2, count),
                   "capital.loss": rng.integers(0, 2, count),
                   "hours.per.week": 35 + 5 * label + rng.integers(0, 9, count)}
        texts = {column: rng.choice(values, count) for column, values in ADULT.items()}
        return {**numbers, **texts, "income": np.where(label, ">50K", "<=50K")}, None
    if "higgs" in name:
        inputs = rng.standard_normal((count, 28)) + 0.5 * label[:, None]
        return {"inputs": inputs.tolist(), "label": label.astype(float)}, None
    if "imdb" in name:
        words = np.array(WORDS)
        texts = [" ".join(rng.choice(words[half::2], 20)) for half in label]
        return {"text": texts, "label": label}, None
    raise FileNotFoundError(f"no stand-in for the dataset {name}")


def _images(rng: Any, count: int, image: str, label: str, side: int, channels: int, classes: int) -> Any:
    import numpy as np
    from datasets import ClassLabel, Features, Image
    from PIL import Image as Pillow

    labels = rng.integers(0, classes, count)
    patterns = np.random.default_rng(0).integers(0, 256, (classes, side, side, channels))
    pixels = (0.5 * patterns[labels] + 0.5 * rng.integers(0, 256, (count, side, side, channels))).astype(np.uint8)
    pictures = [Pillow.fromarray(each.squeeze()) for each in pixels]
    features = {image: Image(), label: ClassLabel(num_classes=classes)}
    columns = {image: pictures, label: labels}
    if label == "fine_label":
        columns["coarse_label"], features["coarse_label"] = labels // 5, ClassLabel(num_classes=20)
    return columns, Features(features)


def stored(name: str) -> Any:
    """Return the dataset from the folder of stand-ins; make it first if it is not there."""
    import datasets

    folder = Path(os.environ["FLOWER_STAND_INS"]) / name.replace("/", "--")
    if not folder.exists():
        made = datasets.DatasetDict()
        for split in SAMPLES:
            columns, features = columns_of(name, split)
            made[split] = datasets.Dataset.from_dict(columns, features=features)
        draft = folder.with_name(f"{folder.name}.{os.getpid()}")
        made.save_to_disk(str(draft))
        with contextlib.suppress(OSError):      # another process was first
            draft.rename(folder)
    return datasets.load_from_disk(str(folder))


def load_dataset(path: str, name: Any = None, *args: Any, split: Any = None, **options: Any) -> Any:
    """Replace ``datasets.load_dataset``."""
    import datasets

    found = stored(path)
    if split is None:
        return found
    if not isinstance(split, str):
        return [found[each] for each in split]
    which, _, part = split.partition("[")
    if not part:
        return found[which]
    first, _, last = part.rstrip("]").partition(":")
    place = [int(end[:-1]) * len(found[which]) // 100 if end.endswith("%") else int(end) if end else None
             for end in (first, last)]
    rows = range(len(found[which]))[slice(*place)]
    return datasets.Dataset.select(found[which], rows)


def patch_datasets(module: Any) -> None:
    """Replace the function that downloads."""
    module.load_dataset = load_dataset
    sys.modules["datasets.load"].load_dataset = load_dataset      # type: ignore[attr-defined]


class InitialWeights(dict[str, Any]):
    """Weights that are not downloaded: a model that loads them keeps its own."""


def patch_weights(module: Any) -> None:
    """Let models of torchvision keep their initial weights instead of downloading some."""
    import torch

    load = torch.nn.Module.load_state_dict

    def loaded(model: Any, state: Any, *args: Any, **options: Any) -> Any:
        return load(model, model.state_dict() if isinstance(state, InitialWeights) else state, *args, **options)

    torch.nn.Module.load_state_dict = loaded      # type: ignore[method-assign]
    module.load_state_dict_from_url = lambda *_, **__: InitialWeights()


def patch_vision_datasets(module: Any) -> None:
    """Replace CIFAR10 of torchvision, which downloads."""
    class Images:
        def __init__(self, root: Any, train: bool = True, transform: Any = None, **options: Any) -> None:
            self._rows, self._transform = stored("cifar10")["train" if train else "test"], transform

        def __len__(self) -> int:
            return len(self._rows)

        def __getitem__(self, place: int) -> Any:
            row = self._rows[int(place)]
            return (self._transform or (lambda image: image))(row["img"]), row["label"]

    module.CIFAR10 = Images


def patch_tokenizers(module: Any) -> None:
    """Replace downloaded tokenizers by one of WORDS."""
    def from_pretrained(name: str, **options: Any) -> Any:
        from transformers import BertTokenizerFast

        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
        return BertTokenizerFast(vocab={word: place for place, word in enumerate(words)}, **options)

    module.AutoTokenizer.from_pretrained = from_pretrained


def patch_language_models(module: Any) -> None:
    """Replace downloaded classifiers of texts by a small one with initial weights."""
    def from_pretrained(name: str, num_labels: int = 2, **options: Any) -> Any:
        from transformers import BertConfig, BertForSequenceClassification

        return BertForSequenceClassification(BertConfig(
            vocab_size=105, hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512,
            num_labels=num_labels))

    module.AutoModelForSequenceClassification.from_pretrained = from_pretrained


def patch_keras(module: Any) -> None:
    """Replace CIFAR10 of Keras, which downloads."""
    def load_data() -> Any:
        import numpy as np

        parts = [stored("cifar10")[name] for name in ("train", "test")]
        return tuple((np.stack([np.asarray(image) for image in part["img"]]), np.asarray(part["label"])[:, None])
                     for part in parts)

    module.load_data = load_data


def patch_evaluate(module: Any) -> None:
    """Replace the downloaded metric."""
    class Accuracy:
        def __init__(self, name: str) -> None:
            self._right: list[bool] = []

        def add_batch(self, predictions: Any, references: Any) -> None:
            self._right += (predictions == references).tolist()

        def compute(self) -> dict[str, float]:
            return {"accuracy": sum(self._right) / len(self._right)}

    module.load = Accuracy


def patch_database(module: Any) -> None:
    """Replace a PostgreSQL server by a file with a table of measurements."""
    import sqlite3

    make = module.create_engine

    def engine(url: Any, **options: Any) -> Any:
        file = Path(os.environ["FLOWER_STAND_INS"], "people.sqlite")
        if not file.exists():
            draft = file.with_name(f"people.{os.getpid()}")
            with contextlib.closing(sqlite3.connect(draft)) as connection, connection:
                connection.execute(f"create table person_measurements ({', '.join(f'{each} real' for each in PEOPLE)})")
                connection.executemany(f"insert into person_measurements values ({', '.join('?' * len(PEOPLE))})",
                                       [[mean + number % 10 for mean in PEOPLE.values()] for number in range(100)])
            draft.rename(file)
        return make(f"sqlite:///{file}", **options)

    module.create_engine = engine


def patch_fastai(module: Any) -> None:
    """Replace the downloaded images of MNIST by those in the app's folder."""
    module.untar_data = lambda *_, **__: Path("mnist").resolve()


def patch_client_app(module: Any) -> None:
    """Record the replies of ClientApps."""
    call = module.ClientApp.__call__

    def recorded(app: Any, message: Any, context: Any) -> Any:
        line = {"id": message.metadata.message_id, "type": message.metadata.message_type}
        try:
            reply = call(app, message, context)
            line["numbers"] = numbers_of(reply)
            return reply
        except BaseException as error:
            line["error"] = f"{type(error).__name__}: {error}"[:300]
            raise
        finally:
            with Path(os.environ["FLOWER_ANSWERS"], f"{context.node_config['partition-id']}.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")

    if not vars(module.ClientApp).get("is_recorded"):
        module.ClientApp.__call__, module.ClientApp.is_recorded = recorded, True


def numbers_of(reply: Any) -> dict[str, float]:
    """Return the metrics of a reply, and the sum and the size of each of its other records."""
    import numpy as np

    found: dict[str, float] = {}
    for name, record in reply.content.items():
        for key, value in record.items():
            if isinstance(value, int | float):
                found[f"{name}.{key}"] = float(value)
            elif isinstance(value, bytes):
                found[f"size of {name}"] = found.get(f"size of {name}", 0.0) + len(value)
            elif isinstance(value, str | list):
                plain = [float(each) for each in value if isinstance(each, int | float)]
                found[f"sum of {name}"] = found.get(f"sum of {name}", 0.0) + float(sum(plain))
            else:
                with contextlib.suppress(Exception):      # arrays of other formats
                    found[f"sum of {name}"] = found.get(f"sum of {name}", 0.0) + float(
                        np.abs(np.asarray(value.numpy(), np.float64)).sum())
    return found


def declare_operators() -> None:
    """Declare torchvision's operators if its compiled library does not."""
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        try:
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        except RuntimeError:       # it does
            return
    KEPT.append(library)


PATCHES: dict[str, Any] = {
    "datasets": patch_datasets, "torchvision.models._api": patch_weights, "torchvision.datasets": patch_vision_datasets,
    "transformers.models.auto.modeling_auto": patch_language_models, "keras.src.datasets.cifar10": patch_keras,
    "transformers.models.auto.tokenization_auto": patch_tokenizers, "evaluate": patch_evaluate,
    "sqlalchemy": patch_database, "fastai.data.external": patch_fastai,
    "flwr.clientapp.client_app": patch_client_app, "flwr.client.client_app": patch_client_app}
KEPT: list[Any] = []


class Patcher(importlib.abc.MetaPathFinder):
    """Finder that changes modules as they are imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torchvision" and name not in PATCHES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            if name == "torchvision":
                declare_operators()
            run(module)
            PATCHES.get(name, lambda module: None)(module)

        spec.loader.exec_module = exec_module      # type: ignore[method-assign]
        return spec


if os.environ.get("FLOWER_STAND_INS"):
    sys.meta_path.insert(0, Patcher())

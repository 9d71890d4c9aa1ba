"""Neural networks that devices train: a registry of built-in models, and own models by import path.

A model is a ``torch.nn.Module`` class that is called with the shape of one image, ``(channels, height, width)``,
the number of classes and its options. Its ``forward`` maps images (batch, channels, height, width) to logits
(batch, classes). With ``forward_group`` (see :class:`netsim.models.cnn.CNN`) several devices are trained at a time.
A function of (shape, classes) that returns a module is a model too.

``"package.module:Class"`` names an own class of an installed package (``netsim.base.imports``).
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import isfunction, signature
from typing import TYPE_CHECKING, Any

from netsim.base.errors import InputError
from netsim.base.registry import Entry, Registry, load

if TYPE_CHECKING:
    from netsim.models.build import build_model
    from netsim.models.cnn import CNN, CifarCNN, FashionCNN, MnistCNN

__all__ = ["CNN", "MODELS", "CifarCNN", "FashionCNN", "MnistCNN", "build_model"]


def _check_class(name: str, found: Any) -> None:
    from torch import nn

    if isinstance(found, nn.Module):
        raise InputError("wrong-interface", f"model {name}", "an object", "a torch.nn.Module class", "Give the class")
    makes = isfunction(found) and [*signature(found).parameters][:1] == ["shape"]
    if not (makes or (isinstance(found, type) and issubclass(found, nn.Module))):
        raise InputError("wrong-interface", f"model {name}", type(found).__name__,
                         "a torch.nn.Module class, or a function of (shape, classes) that makes a module")


@dataclass(frozen=True)
class BuiltInModel(Entry):
    """A built-in model, with the image shape and classes that it was designed for."""

    shape: tuple[int, int, int] = (1, 28, 28)
    classes: int = 10


class ModelRegistry(Registry[BuiltInModel]):
    """The models; a user's own may import torchvision."""

    def find(self, name: str) -> Any:
        try:
            return super().find(name)
        except InputError as error:
            if "torchvision::" not in str(error):
                raise
        from netsim.models.build import declare_torchvision_operators

        declare_torchvision_operators()
        return super().find(name)


MODELS = ModelRegistry("model", "learning.model", {
    "mnist-cnn": BuiltInModel("netsim.models.cnn:MnistCNN", "the paper's network for MNIST"),
    "cifar-cnn": BuiltInModel("netsim.models.cnn:CifarCNN", "the paper's network for CIFAR-10", shape=(3, 32, 32)),
    "fashion-cnn": BuiltInModel("netsim.models.cnn:FashionCNN", "the paper's network for FashionMNIST"),
}, table="learning.model", given=2, check=_check_class)

# Loaded when first used: a scenario is checked without torch.
_HOMES = {"build_model": "build", "CNN": "cnn", "CifarCNN": "cnn", "FashionCNN": "cnn", "MnistCNN": "cnn"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return load(f"netsim.models.{_HOMES[name]}:{name}")
    raise AttributeError(f"module 'netsim.models' has no attribute {name!r}")

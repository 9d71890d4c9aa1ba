"""Registry of selection methods, their construction from a scenario's ``[selection]``, and checks of their choices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from netsim.base.errors import InputError
from netsim.base.pluralize import pluralize
from netsim.base.registry import Entry, Registry
from netsim.base.types import Ints
from netsim.selection.method import of_function
from netsim.selection.view import Choice, Selection, View

RRA = {"lambda": "weight"}     # the reward is called as it is by the allocation method


def _check_kind(name: str, found: Any) -> None:
    """Refuse anything but a selection method; nothing else is ever called."""
    callable_kind = isinstance(found, type) and any("__call__" in vars(kind) for kind in found.__mro__)
    if not (callable_kind and hasattr(found, "needs")):
        raise InputError("wrong-interface", "selection.method", f'"{name}"',
                         'a class with "needs", "state" and __call__(view, rng), or a function of (view, rng)',
                         "Derive it from netsim.selection.Method")


METHODS = Registry("selection method", "selection.method", {
    "fedavg": Entry("netsim.selection.basic:FedAvg", "a uniformly random cohort"),
    "kmeans": Entry("netsim.selection.model_based:KMeans",
                    "random devices from each cluster of similar models (Algorithm 3)"),
    "divergence": Entry("netsim.selection.model_based:Divergence",
                        "from each cluster the models farthest from the global one (Algorithm 4)"),
    "cluster-round-robin": Entry("netsim.selection.model_based:ClusterRoundRobin",
                                 "from each cluster the devices not chosen for longest: the control for divergence"),
    "icas": Entry("netsim.selection.latency:Icas", "drawn by importance and channel"),
    "rra": Entry("netsim.selection.rra:Rra", "those worth their energy before a deadline; the size varies", RRA),
    "rra-as-run": Entry("netsim.selection.rra:RraAsRun",
                        "its iteration cut short, which leaves a random set: the paper's comparison", RRA),
    "favor": Entry("netsim.selection.model_based:Favor", "what a trained agent rates highest (double deep Q-network)"),
    "power-of-choice": Entry("netsim.selection.basic:PowerOfChoice",
                             "of random candidates those that the global model serves worst"),
    "oort": Entry("netsim.selection.latency:Oort", "useful and fast devices, with a share of untried ones"),
    "fedcs": Entry("netsim.selection.latency:FedCS", "as many devices as fit a deadline"),
    "k-center": Entry("netsim.selection.model_based:KCenter", "devices whose models lie far from each other"),
    "tifl": Entry("netsim.selection.latency:TiFL", "devices of one latency tier"),
    "round-robin": Entry("netsim.selection.basic:RoundRobin", "the devices in turn"),
    "proportional-fair": Entry("netsim.selection.basic:ProportionalFair",
                               "the channels that are best against their own average"),
}, check=_check_kind, adapt=of_function)


def make_selection(method: str, options: Mapping[str, Any]) -> Selection:
    """Return the named method, or ``"package.module:Name"`` for an own one, with its options checked."""
    selection: Selection = METHODS.make(method, options)
    if not isinstance(getattr(selection, "state", None), dict):
        raise InputError("wrong-interface", "selection.method", f"{method} without a dict called state", "",
                         "Derive it from netsim.selection.Method")
    return selection


def check_choice(choice: Choice, view: View, method: str) -> Ints:
    """Return the chosen devices; raise an error that names the round, the method and the invalid devices."""
    where = f"round {view.round}, selection {method}"
    if not isinstance(choice, Choice):
        raise InputError("wrong-answer", where, type(choice).__name__, "netsim.selection.Choice(devices)")
    count = len(view.population)
    devices = _different_numbers(choice.devices, count, where)
    if view.alive < count and not view.available[devices].all():
        gone = np.sort(devices[~view.available[devices]])
        raise InputError("wrong-answer", where, f"devices that are off, or have no energy for a job: {_short(gone)}",
                         "available devices")
    wanted = min(view.cohort_size, view.alive)
    if devices.size != wanted and not (varies(method) and devices.size):
        expected = "at least 1" if varies(method) else wanted
        raise InputError("wrong-answer", where, pluralize(devices.size, "device"), str(expected))
    if choice.probability is not None and np.shape(choice.probability) != devices.shape:
        raise InputError("wrong-answer", where, pluralize(np.size(choice.probability), "probability", "probabilities"),
                         f"one for each of {pluralize(devices.size, 'device')}")
    return devices.astype(np.int64)


def _different_numbers(given: Any, count: int, where: str) -> Ints:
    """Return device numbers from 0 to ``count`` - 1 as an array; raise InputError for any other answer."""
    devices = np.asarray(given)
    devices = devices if devices.size else devices.astype(np.int64)
    if devices.ndim != 1 or devices.dtype.kind not in "iu":
        raise InputError("wrong-answer", where, _short(devices.tolist()), "a flat array of whole numbers")
    if devices.size and not (np.minimum.reduce(devices) >= 0 and np.maximum.reduce(devices) < count):
        unknown = devices[(devices < 0) | (devices >= count)]
        raise InputError("wrong-answer", where, f"unknown devices {_short(unknown)}", f"devices 0 to {count - 1}")
    if len(set(devices.tolist())) < devices.size:
        numbers, times = np.unique(devices, return_counts=True)
        raise InputError("wrong-answer", where, f"more than once: {_short(numbers[times > 1])}", "each device once")
    return devices


def varies(method: str) -> bool:
    """Return True if a method may choose any number of devices."""
    return bool(getattr(METHODS.find(method), "varies", False))


def check_state(state: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Return the state of a method, checked to be numeric arrays that a checkpoint can store."""
    for name, value in state.items():
        if np.asarray(value).dtype.kind not in "biuf":
            raise InputError("wrong-interface", "selection.method",
                             f'"{method}" with state["{name}"] = {_short(value)}', "an array of numbers")
    return dict(state)


def _short(devices: Any) -> str:
    """Return the first few of a list, for a message."""
    listed = [str(device) for device in devices] if np.ndim(devices) == 1 else [str(devices)]
    return ", ".join(listed[:10]) + (f" and {len(listed) - 10} more" if len(listed) > 10 else "")

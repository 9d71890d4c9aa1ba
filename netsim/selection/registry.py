"""Selection methods by name, made from a scenario's ``[selection]`` table, and the check of what they answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, get_type_hints

import numpy as np
from pydantic import ConfigDict, ValidationError, create_model

from netsim.base.arrays import Ints
from netsim.base.errors import InputError, one_of
from netsim.base.registry import installed_object
from netsim.selection.view import Choice, Selection, View

METHODS: dict[str, tuple[str, str]] = {     # name -> where it is, what it does in a line
    "fedavg": ("netsim.selection.fedavg:FedAvg", "a uniformly random cohort"),
    "kmeans": ("netsim.selection.kmeans:KMeans", "random devices from each cluster of similar models (Algorithm 3)"),
    "divergence": ("netsim.selection.divergence:Divergence",
                   "from each cluster the models farthest from the global one (Algorithm 4)"),
    "cluster-round-robin": ("netsim.selection.cluster_round_robin:ClusterRoundRobin",
                            "from each cluster the devices not chosen for longest: the control for divergence"),
    "icas": ("netsim.selection.icas:Icas", "drawn by importance and channel"),
    "rra": ("netsim.selection.rra:Rra", "those worth their energy before a deadline; the size varies"),
    "rra-as-run": ("netsim.selection.rra_as_run:RraAsRun",
                   "its iteration cut short, which leaves a random set: the paper's comparison"),
    "favor": ("netsim.selection.favor:Favor", "what a trained agent rates highest (double deep Q-network)"),
    "power-of-choice": ("netsim.selection.power_of_choice:PowerOfChoice",
                        "of random candidates those that the global model serves worst"),
    "oort": ("netsim.selection.oort:Oort", "useful and fast devices, with a share of untried ones"),
    "fedcs": ("netsim.selection.fedcs:FedCS", "as many devices as fit a deadline"),
    "k-center": ("netsim.selection.k_center:KCenter", "devices whose models lie far from each other"),
    "tifl": ("netsim.selection.tifl:TiFL", "devices of one latency tier"),
    "round-robin": ("netsim.selection.round_robin:RoundRobin", "the devices in turn"),
    "proportional-fair": ("netsim.selection.proportional_fair:ProportionalFair",
                          "the channels that are best against their own average"),
}


def make_selection(method: str, options: Mapping[str, Any]) -> Selection:
    """The method named in a scenario, or ``"package.module:Name"`` for a user's own, with its options checked."""
    kind = _find(method)
    made: Any
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        made = kind(**_checked(method, kind, options))
    elif options:
        raise InputError(f"selection.{next(iter(options))}: {method} takes no options, since it is no dataclass")
    else:
        made = kind()
    if not isinstance(getattr(made, "state", None), dict):
        raise InputError(f'selection.method: {method} has no dict "state"; derive it from netsim.selection.Method')
    selection: Selection = made
    return selection


def check_choice(choice: Choice, view: View, method: str) -> Ints:
    """The devices chosen, or an error that names the round, the method and the devices at fault."""
    where = f"round {view.round}, selection {method}"
    if not isinstance(choice, Choice):
        raise InputError(f"{where}: answered with {type(choice).__name__}, expected netsim.selection.Choice(devices)")
    devices = np.asarray(choice.devices)
    devices = devices if devices.size else devices.astype(np.int64)
    if devices.ndim != 1 or devices.dtype.kind not in "iu":
        raise InputError(f"{where}: devices must be a flat array of whole numbers, found {_short(devices.tolist())}")
    count = len(view.population)
    if devices.size and not (devices.min() >= 0 and devices.max() < count):
        unknown = devices[(devices < 0) | (devices >= count)]
        raise InputError(f"{where}: chose unknown devices {_short(unknown)}; there are 0 to {count - 1}")
    if len(set(devices.tolist())) < devices.size:
        numbers, times = np.unique(devices, return_counts=True)
        raise InputError(f"{where}: chose devices more than once: {_short(numbers[times > 1])}")
    if view.alive < count and not view.available[devices].all():
        gone = np.sort(devices[~view.available[devices]])
        raise InputError(f"{where}: chose devices that are not available (battery empty): {_short(gone)}")
    wanted = min(view.cohort_size, view.alive)
    if devices.size != wanted and not (varies(method) and devices.size):
        expected = "at least 1" if varies(method) else wanted
        raise InputError(f"{where}: chose {devices.size} devices, expected {expected}")
    if choice.probability is not None and np.shape(choice.probability) != devices.shape:
        raise InputError(f"{where}: gave {np.size(choice.probability)} probabilities for {devices.size} devices")
    return devices.astype(np.int64)


def varies(method: str) -> bool:
    """Whether a method may choose any number of devices."""
    return bool(getattr(_find(method), "varies", False))


def check_state(state: Mapping[str, Any], method: str) -> dict[str, Any]:
    """What a method carries from round to round, as a checkpoint can keep it."""
    for name, value in state.items():
        if np.asarray(value).dtype.kind not in "biuf":
            raise InputError(f'selection.method "{method}": state["{name}"] must be an array of numbers, found '
                             f"{_short(value)}")
    return dict(state)


def _find(method: str) -> Any:
    """The class behind a method's name or import path; nothing but a selection method is ever called."""
    place, _ = METHODS.get(method, (method, ""))
    if ":" not in place:
        raise InputError(f'selection.method: unknown method "{method}" (one of your own: "package.module:Name"); '
                         f"{one_of(method, METHODS)}")
    kind = installed_object(place, "selection.method")
    if not (isinstance(kind, type) and hasattr(kind, "needs") and any("__call__" in vars(c) for c in kind.__mro__)):
        raise InputError(f'selection.method: "{method}" is no selection method: a class with "needs", "state" '
                         "and __call__(view, rng); derive it from netsim.selection.Method")
    return kind


def _checked(method: str, kind: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with the types and ranges that the dataclass declares."""
    hints = get_type_hints(kind, include_extras=True)
    fields = {f.name: f for f in dataclasses.fields(kind) if f.init}
    for name in options:
        if name not in fields:
            allowed = one_of(name, fields) if fields else "it takes none"
            raise InputError(f"selection.{name}: unknown option of method {method}; {allowed}")
    for name, declared in fields.items():
        if name not in options and declared.default is declared.default_factory is dataclasses.MISSING:
            raise InputError(f"selection.{name}: method {method} needs it, and it is missing")
    declared_types: dict[str, Any] = {name: (hints[name], ...) for name in options}
    rules = ConfigDict(strict=True, arbitrary_types_allowed=True, allow_inf_nan=False)
    model = create_model("Options", __config__=rules, **declared_types)
    try:
        checked = model(**options)
    except ValidationError as problem:
        first = problem.errors()[0]
        expected = first["msg"].replace("Input should be", "should be").removeprefix("Value error, ")
        raise InputError(f"selection.{first['loc'][0]}: {expected} (method {method}), "
                         f"found {first['input']!r}") from problem
    return {name: getattr(checked, name) for name in options}


def _short(devices: Any) -> str:
    """The first few of a list, for a message."""
    listed = [str(device) for device in devices] if np.ndim(devices) == 1 else [str(devices)]
    return ", ".join(listed[:10]) + (f" and {len(listed) - 10} more" if len(listed) > 10 else "")

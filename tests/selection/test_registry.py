"""Methods by name, their options, and the check of what they answer."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module

import numpy as np
import pytest
from refused import refused

from netsim.base.errors import InputError
from netsim.selection import METHODS, Choice, Method, check_choice, make_selection


@dataclass(frozen=True)
class Fixed(Method):
    """A user's method: it answers what it is told to."""

    first: int = 0

    def __call__(self, view, rng):
        return Choice(self.first + np.arange(view.cohort_size))


FIXED = f"{__name__}:Fixed"


class NoState:
    needs = frozenset()

    def __call__(self, view, rng):
        return Choice(np.arange(view.cohort_size))


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_is_there_and_says_its_rule(name):
    module, _, kind = METHODS[name].place.partition(":")
    assert issubclass(getattr(import_module(module), kind), Method)
    assert f"``{name}``" in import_module(module).__doc__
    assert METHODS[name].summary


def test_a_users_method_by_import_path(view, rng):
    selection = make_selection(FIXED, {"first": 3})
    assert check_choice(selection(view(), rng), view(), FIXED).tolist() == [3, 4]


@pytest.mark.parametrize(("method", "options", "says"), [
    ("fedavgg", {}, 'did you mean "fedavg"'),
    ("nowhere.module:Name", {}, "cannot import"),
    ("netsim.selection.fedavg:FedAvgg", {}, "has no FedAvgg"),
    ("..:x", {}, "not of the form"),
    (":x", {}, "not of the form"),
    ("subprocess:Popen", {"args": "true"}, "does not offer"),
    ("os:system", {"command": "true"}, "does not offer"),
    (f"{__name__}:NoState", {}, "without a dict called state"),
    (f"{__name__}:NoState", {"norm": "l1"}, "takes none"),
    ("fedavg", {"norm": "l1"}, "takes none"),
    ("divergence", {"nrm": "l1"}, 'allowed: clusters, layer, norm; did you mean "norm"'),
    ("divergence", {"norm": "l3"}, 'selection.norm = "l3": allowed: l1, l2; did you mean "l2"?'),
    ("kmeans", {"clusters": 0}, "greater than or equal to 1"),
    ("kmeans", {"clusters": "ten"}, 'selection.clusters = "ten": expected a whole number'),
    ("kmeans", {"clusters": True}, "expected a whole number"),
    ("kmeans", {"state": {}}, 'selection.state: unknown option'),
    ("rra", {"lambda": "1 mJ"}, 'it is called "weight"'),
    ("rra-as-run", {"lambda": "1 mJ"}, 'it is called "weight"'),
])
def test_bad_input(method, options, says):
    with pytest.raises(InputError, match="selection") as error:
        make_selection(method, options)
    assert says in str(error.value)


@pytest.mark.parametrize(("devices", "found"), [
    ([0, 0], "more than once: 0"), ([0, 6], "unknown devices 6"), ([-1, 2], "unknown devices -1"),
    ([0, 5], "devices that are off, or have no energy for a job: 5"), ([0], "1 device"), ([0, 1, 2], "3 devices"),
    ([], "0 devices"), ([0.0, 1.0], "0.0, 1.0"), ([[0, 1]], "[[0, 1]]"),
])
def test_a_wrong_choice_is_named_with_round_and_method(view, devices, found):
    with pytest.raises(InputError) as error:
        check_choice(Choice(np.array(devices)), view(round=17, available=[True] * 5 + [False]), FIXED)
    assert (error.value.code, error.value.key) == ("wrong-answer", f"round 17, selection {FIXED}")
    assert error.value.found == found


def test_an_answer_that_is_no_choice(view):
    with refused("wrong-answer", f"round {view().round}, selection {FIXED}"):
        check_choice([0, 1], view(), FIXED)


def test_fewer_devices_are_right_when_fewer_are_there(view):
    cell = view(available=[False] * 5 + [True])
    assert check_choice(Choice(np.array([5])), cell, FIXED).tolist() == [5]


def test_a_probability_for_each_device(view):
    with refused("wrong-answer", f"round {view().round}, selection {FIXED}"):
        check_choice(Choice(np.array([0, 1]), np.array([0.5])), view(), FIXED)

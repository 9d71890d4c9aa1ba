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


@pytest.mark.parametrize(("method", "options", "code", "key"), [
    ("fedavgg", {}, "unknown-name", "method"),
    ("nowhere.module:Name", {}, "import-failed", "method"),
    ("netsim.selection.basic:FedAvgg", {}, "import-failed", "method"),
    ("..:x", {}, "malformed", "method"),
    (":x", {}, "malformed", "method"),
    ("subprocess:Popen", {"args": "true"}, "wrong-interface", "method"),
    ("os:system", {"command": "true"}, "wrong-interface", "method"),
    (f"{__name__}:NoState", {}, "wrong-interface", "method"),
    (f"{__name__}:NoState", {"norm": "l1"}, "unknown-option", "norm"),
    ("fedavg", {"norm": "l1"}, "unknown-option", "norm"),
    ("divergence", {"nrm": "l1"}, "unknown-option", "nrm"),
    ("divergence", {"norm": "l3"}, "unknown-name", "norm"),
    ("kmeans", {"clusters": 0}, "out-of-range", "clusters"),
    ("kmeans", {"clusters": "ten"}, "wrong-type", "clusters"),
    ("kmeans", {"clusters": True}, "wrong-type", "clusters"),
    ("kmeans", {"state": {}}, "unknown-option", "state"),
    ("rra", {"lambda": "1 mJ"}, "renamed", "lambda"),
    ("rra-as-run", {"lambda": "1 mJ"}, "renamed", "lambda"),
])
def test_bad_input(method, options, code, key):
    with pytest.raises(InputError) as error:
        make_selection(method, options)
    assert (error.value.code, error.value.key) == (code, f"selection.{key}")


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

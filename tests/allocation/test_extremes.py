"""Absurd values: every method has an answer or one sentence, within seconds and without a warning."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from allocation_worlds import paper_world
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.allocation import METHODS, Infeasible, Problem, allocate
from netsim.allocation.compare import compare
from netsim.allocation.infeasibility import largest_feasible
from netsim.allocation.normalized import NormalizedProblem
from netsim.base.errors import InputError

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("error")]
USUAL = {
    "bits": 5.6, "cycles": 8.0, "capacitance": -28.0, "gain": -10.0, "power_w": -1.0, "budget_j": -1.5,
    "cpu_min_hz": 8.0, "cpu_max_hz": 9.0, "bandwidth_hz": 7.0, "noise_w_per_hz": -20.4,
}


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Seconds of this process alone, however busy the machine is."""
    def over(*_: object) -> None:
        raise TimeoutError(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def absurd(rng: np.random.Generator) -> dict[str, Any]:
    """Magnitudes from 1e-60 to 1e60: of all fields, of one field in a usual world, or of all around the usual ones."""
    size, kind, one = int(rng.integers(1, 6)), rng.integers(3), rng.choice(list(USUAL))
    world: dict[str, Any] = {}
    for name, usual in USUAL.items():
        away = (rng.uniform(-60, 60, size) - usual, rng.uniform(-1, 1, size), rng.normal(0, 8, size))[kind]
        if kind == 1 and name == one:
            away = rng.uniform(-60, 60) - usual
        world[name] = np.clip(10.0 ** (usual + away + np.zeros(size)), 1e-60, 1e60)
    world["cpu_min_hz"], world["cpu_max_hz"] = np.sort([world["cpu_min_hz"], world["cpu_max_hz"]], axis=0)
    for name in ("bandwidth_hz", "noise_w_per_hz"):
        world[name] = float(world[name][0])
    if rng.random() < 0.5:
        world["power_min_w"] = world["power_w"] * 10 ** -rng.uniform(0, 20, size)
        world["power_max_w"] = world["power_w"] * 10 ** rng.uniform(0, 20, size)
    return world


def options(method: str, rng: np.random.Generator) -> dict[str, float]:
    if rng.random() < 0.5 or method not in ("fedl", "rra"):
        return {}
    chosen = {"lambda": float(10 ** rng.uniform(-60, 60))}
    return chosen | ({"deadline": float(10 ** rng.uniform(-60, 300))} if method == "rra" else {})


def check(problem: Problem, method: str, **given: float) -> bool:
    """Whether there was an answer; it must be a plan with numbers, in the band."""
    with time_limit(20):
        try:
            plan = allocate(problem, method, **given)
        except (Infeasible, InputError) as why:
            assert str(why)                                       # noqa: PT017
            assert "\n" not in str(why)                           # noqa: PT017
            return False
    for array in (plan.bandwidth_hz, plan.cpu_hz, plan.power_w, plan.compute_s, plan.upload_s, plan.device_energy_j):
        assert np.isfinite(array).all()
    assert plan.bandwidth_used_hz <= problem.bandwidth_hz * (1 + 1e-9)
    assert (plan.upload_s > 0).all()
    return True


@settings(max_examples=100, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_an_answer_or_a_sentence(seed: int) -> None:
    rng = np.random.default_rng(seed)
    try:
        problem = Problem(**absurd(rng))
    except InputError:
        return
    for method in METHODS:
        check(problem, method, **options(method, rng))


@settings(max_examples=20, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_comparing_and_leaving_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    try:
        problem = Problem(**absurd(rng))
    except InputError:
        return
    with time_limit(60):
        for method in METHODS:
            try:
                compare(problem, [(method, {})], np.arange(len(problem)))
                kept = largest_feasible(problem, method)
            except InputError:
                continue
            assert len(kept) <= len(problem)


@pytest.mark.parametrize(("method", "given", "change"), [
    ("rra", {"deadline": 1e300}, {}), ("rra", {"deadline": 1e-300}, {}), ("rra", {"lambda": 1e-300}, {}),
    ("fedl", {}, {"bandwidth_hz": 1e50}), ("fedl", {"lambda": 1.0}, {"bandwidth_hz": 1e50}),
    ("fedl", {"lambda": 1.0}, {"gain": 1e-60}), ("fedl", {}, {"gain": 1e-60}), ("sao", {}, {"bits": 2e36}),
    ("sao", {}, {"budget_j": 1e-60}), ("fedl", {"lambda": 1e300}, {"bits": 2e36}), ("fedl", {"lambda": 1e-300}, {}),
])
def test_those_that_were_met(method: str, given: dict[str, float], change: dict[str, float]) -> None:
    usual = paper_world(np.random.default_rng(1), 5)
    check(Problem(**{name: getattr(usual, name) for name in USUAL} | change), method, **given)


def test_fedl_spends_no_more_than_it_must_where_no_equal_share_is_of_use() -> None:
    """It begins with equal shares, and here an upload over one would take for ever."""
    problem = Problem(**absurd(np.random.default_rng(72)))
    least = float(problem.power_w @ NormalizedProblem.of(problem).limit)           # to send, over a band without end
    assert allocate(problem, "fedl", **{"lambda": 1e-20}).energy_j == pytest.approx(least, rel=1e-6)


def test_fedl_refuses_rounds_beyond_what_it_takes_for_a_budget_without_end() -> None:
    with pytest.raises(InputError, match=r"no round is shorter than 1e\+30 s"):
        allocate(Problem(**absurd(np.random.default_rng(58))), "fedl", **{"lambda": 1e-4})


@pytest.mark.parametrize("method", METHODS)
def test_usual_worlds_are_answered(method: str) -> None:
    assert check(paper_world(np.random.default_rng(1), 5, budget_j=0.05), method)

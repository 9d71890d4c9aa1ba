"""What a problem refuses, and what it makes of what it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refused import refused

from netsim.allocation import METHODS, Problem, allocate, check_method
from netsim.allocation.plan import plan_for
from netsim.base.errors import InputError

GOOD: dict[str, Any] = {
    "bits": [1e6, 1e6], "cycles": [1e8, 1e8], "capacitance": [1e-28, 1e-28], "gain": [1e-10, 1e-11],
    "power_w": [0.1, 0.1], "budget_j": [1.0, 1.0], "cpu_min_hz": [1e8, 1e8], "cpu_max_hz": [1e9, 1e9],
    "bandwidth_hz": 1e6, "noise_w_per_hz": 4e-21,
}


@pytest.mark.parametrize("field", ["bits", "gain", "power_w", "budget_j", "cpu_min_hz", "cpu_max_hz"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_names_the_field_and_the_device(field: str, value: float) -> None:
    if (field, value) == ("budget_j", np.inf):
        assert Problem(**{**GOOD, field: [1.0, value]}).budget_j[1] == np.inf      # no budget
        return
    with refused("out-of-range" if np.isfinite(value) else "not-finite", f"{field}, device 1"):
        Problem(**{**GOOD, field: [GOOD[field][0], value]})


@pytest.mark.parametrize("field", ["cycles", "capacitance"])
@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_zero_has_a_meaning_but_negative_has_none(field: str, value: float) -> None:
    Problem(**{**GOOD, field: [0.0, 0.0]})
    with refused("out-of-range" if np.isfinite(value) else "not-finite", f"{field}, device 0"):
        Problem(**{**GOOD, field: [value, 0.0]})


@pytest.mark.parametrize("field", ["bandwidth_hz", "noise_w_per_hz"])
@pytest.mark.parametrize(("value", "code"), [
    (0.0, "out-of-range"), (-1.0, "out-of-range"), (np.nan, "not-finite"), (np.inf, "not-finite"),
    (None, "not-finite"), ("wide", "wrong-type"), ([1.0, 2.0], "wrong-type")])
def test_names_the_field_of_the_cell(field: str, value: object, code: str) -> None:
    with refused(code, field):
        Problem(**{**GOOD, field: value})


def test_unequal_lengths() -> None:
    with refused("wrong-length", "gain"):
        Problem(**{**GOOD, "gain": [1e-10]})
    with refused("wrong-length", "bits"):
        Problem(**{**GOOD, "gain": [1e-10] * 3})
    with refused("empty", "bits"):
        Problem(**{**GOOD, "bits": []})


@pytest.mark.parametrize(("value", "code", "key"), [
    ("x", "wrong-type", "bits"), ([1.0, "x"], "wrong-type", "bits"), (None, "not-finite", "bits"),
    ([[1.0, 2.0]], "wrong-length", "bits"), ({"a": 1}, "wrong-type", "bits")])
def test_what_is_no_array_of_numbers(value: object, code: str, key: str) -> None:
    with refused(code, key):
        Problem(**{**GOOD, "bits": value})


def test_empty_ranges() -> None:
    with refused("conflict", "cpu_min_hz, device 1"):
        Problem(**{**GOOD, "cpu_min_hz": [1e8, 2e9]})
    with refused("conflict", "power_min_w, device 0"):
        Problem(**{**GOOD, "power_min_w": 0.2, "power_max_w": 0.1})
    with refused("not-finite", "power_max_w, device 1"):
        Problem(**{**GOOD, "power_max_w": [0.1, np.nan]})


def test_products_beyond_floating_point() -> None:
    with refused("too-large", "gain * power_w / noise_w_per_hz, device 1"):
        Problem(**{**GOOD, "gain": [1e-10, 1e308], "noise_w_per_hz": 1e-300})


def test_numbers_name_the_devices() -> None:
    with refused("out-of-range", "gain, device 42"):
        Problem(**{**GOOD, "gain": [1e-10, -1.0], "numbers": [7, 42]})
    with refused("conflict", "cpu_min_hz, device 42"):
        Problem(**{**GOOD, "cpu_min_hz": [1e8, 2e9], "numbers": [7, 42]})
    with refused("wrong-length", "bits"):
        Problem(**{**GOOD, "numbers": [1, 2, 3]})


def test_scalars_stand_for_every_device_and_arrays_are_read_only() -> None:
    mine = np.array([1e-10, 1e-11])
    problem = Problem(**{**GOOD, "bits": 1e6, "gain": mine})
    mine[0] = -1.0
    assert problem.bits.tolist() == [1e6, 1e6]
    assert problem.gain.tolist() == [1e-10, 1e-11]
    with pytest.raises(ValueError, match="read-only"):
        problem.gain[0] = 1.0
    assert len(problem) == 2


def test_subsets() -> None:
    problem = Problem(**GOOD)
    assert problem.subset([1]).gain.tolist() == [1e-11]
    assert problem.subset(np.array([True, False])).gain.tolist() == [1e-10]
    assert problem.subset([1, 0]).gain.tolist() == [1e-11, 1e-10]
    with refused("empty", "devices"):
        problem.subset([])


def test_a_plan_follows_from_the_closed_forms() -> None:
    # ratio 3 in 1 MHz: 2 Mbit/s, so 0.5 s at 0.1 W; 0.1 Gcycle at 0.5 GHz: 0.2 s and 1e-28 * 1e8 * 0.25e18 J
    problem = Problem(**{**GOOD, "gain": 1.2e-13, "bandwidth_hz": 2e6})
    plan = plan_for(problem, np.array([1e6, 1e6]), np.array([5e8, 1e9]))
    assert plan.upload_s == pytest.approx([0.5, 0.5])
    assert plan.compute_s == pytest.approx([0.2, 0.1])
    assert plan.device_energy_j == pytest.approx([0.0525, 0.06])
    assert (plan.round_s, plan.energy_j) == pytest.approx((0.7, 0.1125))
    assert plan.bandwidth_used_hz == 2e6
    assert not plan.over_budget.any()


def test_methods_are_looked_up_with_a_guess() -> None:
    with pytest.raises(InputError) as error:
        allocate(Problem(**GOOD), "soa")
    assert (error.value.code, error.value.key) == ("unknown-name", "allocation.method")
    assert 'Did you mean "sao"?' in error.value.hint
    with pytest.raises(InputError) as error:
        check_method("sao", {"speed": 3})
    assert (error.value.code, error.value.key, error.value.expected) == ("unknown-option", "allocation.speed", "none")
    check_method("rra", {"deadline": "300 ms", "weight": "1 mJ"})
    check_method("rra", {"deadline": 0.3})
    with pytest.raises(InputError, match='allocation.deadline: is out of range .found "-3 ms"'):
        check_method("rra", {"deadline": "-3 ms"})
    with pytest.raises(InputError, match="cannot be imported"):
        check_method("no.such.module:solve", {})
    for name in METHODS:
        check_method(name, {})


def own_method(problem: Problem, cpu_hz: float = 1e8) -> Any:
    return plan_for(problem, np.full(len(problem), 1.0), np.full(len(problem), cpu_hz))


def test_a_method_of_the_users_own() -> None:
    plan = allocate(Problem(**GOOD), f"{__name__}:own_method", cpu_hz=2e8)
    assert plan.cpu_hz.tolist() == [2e8, 2e8]
    with pytest.raises(InputError, match=r"allocation\.speed: unknown option .*expected cpu_hz"):
        check_method(f"{__name__}:own_method", {"speed": 1})


@pytest.mark.parametrize("method", ["os:system", "timeit:timeit", "builtins:print", "math:pi", "runpy:run_path"])
def test_a_scenario_can_call_nothing_but_allocation_methods(method: str) -> None:
    with pytest.raises(InputError, match="first parameter is called problem"):
        check_method(method, {})


def test_a_part_of_a_valid_problem_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Problem(**{**GOOD, "numbers": [7, 42]})
    monkeypatch.setattr(Problem, "__post_init__", lambda self: pytest.fail("validated again"))
    part = whole.subset([1], gain=np.array([1e-8]))
    assert (part.gain.tolist(), part.power_w.tolist(), part.numbers.tolist()) == ([1e-8], [0.1], [42])
    assert part.snr_hz.tolist() == (part.gain * part.power_w / part.noise_w_per_hz).tolist()
    assert whole.with_power(np.array([0.2, 0.3])).power_w.tolist() == [0.2, 0.3]
    for name in ("gain", "bits", "numbers"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(part, name)[0] = 1


@pytest.mark.parametrize("gain", [0.0, -1e-9, np.nan, np.inf, 1e300])
def test_but_the_gains_of_a_round_are(gain: float) -> None:
    whole = Problem(**{**GOOD, "numbers": [7, 42]})
    with pytest.raises(InputError, match=r"^gain( \* power_w / noise_w_per_hz)?, device 42: "):
        whole.subset([0, 1], gain=np.array([1e-9, gain]))


def test_arrays_that_nobody_can_write_to_are_not_copied() -> None:
    mine = np.array([1e-10, 1e-11])
    seen = mine[:]
    seen.flags.writeable = False                  # only this look at it: its owner can still be written to
    assert not np.shares_memory(Problem(**{**GOOD, "gain": seen}).gain, mine)
    mine.flags.writeable = False
    assert np.shares_memory(Problem(**{**GOOD, "gain": seen}).gain, mine)

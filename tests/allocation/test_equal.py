"""`equal`, by hand and against `sao`."""

from __future__ import annotations

import numpy as np
import pytest
from allocation_worlds import check_constraints, paper_world

from netsim.allocation import Infeasible, Problem, allocate


def two_devices(budget_j: list[float]) -> Problem:
    """Each has 1 MHz of 2 MHz at ratio 3, 2 Mbit to send (1 s, 0.1 J), 1 Gcycle at 1e-28 f^2 J a cycle."""
    return Problem(bits=2e6, cycles=1e9, capacitance=1e-28, gain=1.2e-13, power_w=0.1, budget_j=budget_j,
                   cpu_min_hz=5e8, cpu_max_hz=2e9, bandwidth_hz=2e6, noise_w_per_hz=4e-21)


def test_each_cpu_spends_what_the_upload_leaves() -> None:
    plan = allocate(two_devices([0.2, 9.0]), "equal")
    assert plan.bandwidth_hz.tolist() == [1e6, 1e6]
    assert plan.cpu_hz == pytest.approx([1e9, 2e9])   # 0.1 J are left for the first; the second is at its maximum
    assert plan.round_s == pytest.approx(2.0)
    assert plan.device_energy_j == pytest.approx([0.2, 0.5])


def test_names_the_devices_that_an_equal_share_does_not_serve() -> None:
    with pytest.raises(Infeasible, match=r"^device 1: .*124 mJ against 125 mJ.*share of 1 MHz") as caught:
        allocate(two_devices([0.2, 0.124]), "equal")          # 0.1 J of upload, 0.025 J of computing at 0.5 GHz
    assert caught.value.devices == (1,)


def test_is_never_faster_than_sao() -> None:
    rng = np.random.default_rng(2)
    feasible = 0
    for _ in range(100):
        problem = paper_world(rng, 8, budget_j=rng.uniform(0.03, 0.1))
        try:
            plan = allocate(problem, "equal")
        except Infeasible:
            continue
        feasible += 1
        check_constraints(problem, plan)
        assert allocate(problem).round_s <= plan.round_s * (1 + 1e-12)
    assert feasible > 20

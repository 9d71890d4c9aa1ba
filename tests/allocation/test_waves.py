"""Who takes part when a cohort has no feasible plan."""

import numpy as np
import pytest

from netsim.allocation import Infeasible, Problem, allocate
from netsim.allocation.diagnosis import largest_feasible
from netsim.allocation.waves import Planner
from netsim.base.errors import InputError

# With gain 1e-10 and no computing, a device needs about 1.5 MHz to send 1 Mbit at 0.1 W within 6.3 mJ.
# The band is 4 MHz.
BUDGET_J = np.array([0.0063] * 6 + [1e-6])        # device 6 can never do it


def planner(method="sao"):
    def problem(devices):
        return Problem(bits=1e6, cycles=1e3, capacitance=1e-28, gain=np.full(len(devices), 1e-10), power_w=0.1,
                       budget_j=BUDGET_J[devices], cpu_min_hz=1e8, cpu_max_hz=1e9, bandwidth_hz=4e6,
                       noise_w_per_hz=4e-21)

    return Planner(problem, lambda p: allocate(p, method), lambda p: largest_feasible(p, method))


def waves(agenda):
    return [wave.devices.tolist() for wave in agenda.waves]


@pytest.mark.parametrize("rule", ["largest", "waves", "relax", "error"])
def test_a_cohort_that_fits_goes_at_once_whatever_the_rule(rule):
    agenda = planner().agenda(np.array([0, 1]), rule, size=2)
    assert waves(agenda) == [[0, 1]]
    assert agenda.dropped.tolist() == []


def test_the_largest_part_takes_part_and_the_rest_is_left_out():
    agenda = planner().agenda(np.arange(4), "largest", size=4)
    assert len(agenda.devices) == 2
    assert sorted([*agenda.devices, *agenda.dropped]) == [0, 1, 2, 3]


def test_waves_take_everybody_who_can_at_all():
    agenda = planner().agenda(np.arange(7), "waves", size=3)
    assert sorted(agenda.devices.tolist()) == [0, 1, 2, 3, 4, 5]
    assert agenda.dropped.tolist() == [6]
    assert all(len(wave.devices) <= 2 for wave in agenda.waves)
    assert not any(wave.plan.over_budget.any() for wave in agenda.waves)


def test_relaxed_budgets_let_everybody_in():
    agenda = planner().agenda(np.arange(4), "relax", size=4)
    assert waves(agenda) == [[0, 1, 2, 3]]
    plan = agenda.waves[0].plan
    assert (plan.device_energy_j > 0.0063).any()
    assert plan.bandwidth_hz.sum() <= 4e6 * (1 + 1e-9)


def test_an_error_says_what_to_change():
    with pytest.raises(InputError, match="no feasible plan for this cohort: .*rounds.infeasible"):
        planner().agenda(np.arange(4), "error", size=4)


def test_nobody_is_no_problem():
    assert waves(planner().agenda(np.zeros(0, np.int64), "error", size=4)) == []


@pytest.mark.parametrize("rule", ["largest", "waves"])
def test_where_nobody_fits_everybody_is_left_out(rule):
    agenda = planner().agenda(np.array([6]), rule, size=1)
    assert (waves(agenda), agenda.dropped.tolist()) == ([], [6])


def test_relaxed_budgets_suit_the_method_and_not_only_the_optimum():
    """Equal shares of 1 MHz send 1 Mbit for 8.86 mJ, so budgets must grow by 8.86 / 6.3, and not more."""
    plan = planner("equal").agenda(np.arange(4), "relax", size=4).waves[0].plan
    assert plan.device_energy_j == pytest.approx([8.86e-3] * 4, rel=1e-3)
    assert plan.device_energy_j.max() / 0.0063 == pytest.approx(1.406, rel=1e-3)


def test_where_no_budget_helps_the_largest_part_takes_part():
    whole = planner()

    def at_most_two(problem):
        if len(problem) > 2:
            raise Infeasible(range(len(problem)), "this method takes two")
        return whole.allocate(problem)

    picky = Planner(whole.problem, at_most_two, lambda problem: np.array([0, 1]))
    agenda = picky.agenda(np.arange(4), "relax", size=4)
    assert (waves(agenda), agenda.dropped.tolist()) == ([[0, 1]], [2, 3])

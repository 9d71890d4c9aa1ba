"""Who takes part when a cohort has no feasible plan."""

import itertools

import numpy as np
import pytest
from refused import refused

from netsim.allocation import Infeasible, Problem, allocate
from netsim.allocation.infeasibility import largest_feasible
from netsim.allocation.planner import Planner, planner_of
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
    with refused("infeasible", "rounds.infeasible"):
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


# What a plan is told.

def told(within_s=None, charge_j=None, method="sao"):
    """As above, with a deadline and batteries."""
    return planner_of(method, {}, within_s)(planner().problem, None if charge_j is None else charge_j.__getitem__)


def test_nobody_is_planned_to_spend_more_than_its_battery_holds():
    """Two devices with 4 MHz have room to spare: 2 MHz each take 4.86 mJ; a battery of 4 mJ needs 2.51 MHz."""
    charge_j = np.array([0.004, 1.0])
    wave, = told(charge_j=charge_j).agenda(np.array([0, 1]), "error", size=2).waves
    assert wave.problem.budget_j == pytest.approx([0.004, 0.0063], rel=1e-8)
    assert wave.plan.device_energy_j[0] < charge_j[0]
    assert wave.plan.device_energy_j[0] == pytest.approx(0.004, rel=1e-3)
    assert wave.plan.bandwidth_hz == pytest.approx([2.51e6, 1.49e6], rel=1e-3)


def test_a_battery_that_holds_the_budget_changes_nothing():
    with_it = told(charge_j=np.full(2, 0.0064)).agenda(np.array([0, 1]), "error", size=2).waves[0]
    assert with_it.plan.round_s == told().agenda(np.array([0, 1]), "error", size=2).waves[0].plan.round_s


def test_raised_budgets_raise_no_battery():
    """Of four devices one has only 6 mJ: budgets grow for the others, and it sends with what it has."""
    agenda = told(charge_j=np.array([0.006, 1.0, 1.0, 1.0])).agenda(np.arange(4), "relax", size=4)
    wave, = agenda.waves
    assert agenda.relaxed > 1.0
    assert wave.problem.budget_j == pytest.approx([0.006, *[0.0063 * agenda.relaxed] * 3], rel=1e-8)
    assert wave.plan.device_energy_j[0] < 0.006


def test_who_has_too_little_is_left_out_and_the_budgets_of_the_others_are_raised():
    agenda = told(charge_j=np.array([1e-6, 1.0, 1.0, 1.0, 1.0])).agenda(np.arange(5), "relax", size=5)
    assert (waves(agenda), agenda.dropped.tolist()) == ([[1, 2, 3, 4]], [0])
    assert agenda.relaxed == pytest.approx(planner().agenda(np.arange(4), "relax", size=4).relaxed, rel=1e-6)


def test_a_cohort_that_misses_the_deadline_is_one_without_a_plan():
    """Alone a device takes 26.9 ms, two take 48.6 ms: each of the rules for cohorts without a plan."""
    alone, both = (told().agenda(np.arange(n), "error", size=2).waves[0].plan.round_s for n in (1, 2))
    between = (alone + both) / 2
    assert waves(told(both).agenda(np.arange(2), "error", size=2)) == [[0, 1]]          # right on it is in time
    part = told(between).agenda(np.arange(2), "largest", size=2)
    assert (len(part.devices), len(part.dropped)) == (1, 1)
    assert [len(each) for each in waves(told(between).agenda(np.arange(2), "waves", size=2))] == [1, 1]
    with pytest.raises(InputError, match=r"devices 0, 1: done after 48\.6 ms, and the deadline is 37\.75 ms"):
        told(between).agenda(np.arange(2), "error", size=2)
    assert waves(told(alone / 2).agenda(np.arange(2), "largest", size=2)) == []


@pytest.mark.parametrize("method", ["sao", "equal"])
def test_no_other_part_of_a_cohort_is_larger_and_in_time(method):
    rng = np.random.default_rng(8)
    short = 0
    for _ in range(30):
        gain = 10.0 ** rng.uniform(-11, -9, 5)
        problem = Problem(bits=1e6, cycles=rng.uniform(1e6, 5e7, 5), capacitance=1e-28, gain=gain, power_w=0.1,
                          budget_j=0.02, cpu_min_hz=1e8, cpu_max_hz=1e9, bandwidth_hz=4e6, noise_w_per_hz=4e-21)
        within_s = rng.uniform(0.05, 0.4)
        found = largest_feasible(problem, method, within_s=within_s)
        fits = [some for size in range(1, 6) for some in itertools.combinations(range(5), size)
                if punctual(problem.subset(list(some)), method, within_s)]
        assert len(found) == max(map(len, fits), default=0)
        assert not len(found) or tuple(found.tolist()) in fits
        short += 0 < len(found) < 5
    assert short >= 10


def punctual(problem, method, within_s):
    try:
        return allocate(problem, method).round_s <= within_s
    except Infeasible:
        return False


def test_a_part_that_misses_the_deadline_with_its_own_budgets_is_divided_again():
    """A part may have other budgets than within the whole, as downloads to fewer devices leave more energy."""
    def allocated(p):
        if len(p) == 3:
            raise Infeasible(np.arange(3), "late")
        return allocate(p, "sao")

    planned = Planner(planner().problem, allocated, lambda p: np.arange(min(3, len(p) - (len(p) == 3))))
    agenda = planned.largest_part(np.arange(5))
    assert (waves(agenda), agenda.dropped.tolist()) == ([[0, 1]], [2, 3, 4])


def test_a_method_that_never_has_the_plan_that_it_promised_leaves_all_out():
    def allocated(p):
        raise Infeasible(np.arange(len(p)), "late")

    agenda = Planner(planner().problem, allocated, lambda p: np.arange(len(p))).largest_part(np.arange(3))
    assert (waves(agenda), agenda.dropped.tolist()) == ([], [0, 1, 2])

"""Tables of CPU power, circuit power and amplifiers: by hand, against brute force, and through a run."""

import numpy as np
import pytest
from scipy.optimize import brentq

from netsim import simulate
from netsim.allocation import Infeasible, Problem, allocate
from netsim.allocation.cpu_power import CpuPower
from netsim.base.errors import InputError
from netsim.physics import fdma_rate
from netsim.scenario import load_scenario

TABLE = ((0.5e9, 0.2), (1e9, 0.5), (1.5e9, 1.2), (2e9, 2.4))
CPU, RADIO = "population.node.cpu", "population.node.radio"


def problem(tables, **changes):
    rng = np.random.default_rng(3)
    given = {"bits": 1e6, "cycles": rng.uniform(1e9, 3e9, len(tables)), "capacitance": 1e-28, "power_w": 0.2,
             "gain": 10 ** rng.uniform(-11.5, -10, len(tables)), "budget_j": 2.5, "cpu_min_hz": 0.5e9,
             "cpu_max_hz": 2e9, "bandwidth_hz": 5e6, "noise_w_per_hz": 4e-21, "cpu_power": CpuPower.of(tables)}
    return Problem(**{**given, **changes})


def test_power_is_linear_between_points_and_the_hull_leaves_bad_ones_out():
    power = CpuPower.of([TABLE, None, ((1e9, 1.0), (1.5e9, 1.9), (2e9, 2.0))])
    assert power.at(np.array([1.25e9, 1e9, 1.5e9]))[[0, 2]].tolist() == pytest.approx([0.85, 1.5])
    assert power.tabled.tolist() == [True, False, True]
    assert power.thriftiest_hz().tolist() == [0.5e9, 0.0, 1e9]      # 0.4, 0.5, 0.8, 1.2 nJ per cycle


def test_slower_than_the_thriftiest_clock_is_never_planned():
    racing = ((0.5e9, 1.0), (1e9, 1.2), (2e9, 3.0))                 # 2.0, 1.2, 1.5 nJ per cycle
    assert problem([racing]).cpu_min_hz.tolist() == [1e9]


def test_equal_and_tdma_run_cpus_as_fast_as_the_budget_allows():
    tabled = problem([TABLE] * 3)
    plan = allocate(tabled, "equal")
    for n in range(3):
        upload_s = 1e6 / float(fdma_rate(5e6 / 3, tabled.snr_hz[n]))
        spare = 2.5 - 0.2 * upload_s

        def over(hz, n=n, spare=spare):
            return np.interp(hz, *zip(*TABLE, strict=True)) / hz * tabled.cycles[n] - spare

        expected = 2e9 if over(2e9) <= 0 else brentq(over, 0.5e9, 2e9, xtol=1.0)
        assert plan.cpu_hz[n] == pytest.approx(expected, rel=1e-7)
    assert not plan.over_budget.any()
    assert not allocate(tabled, "tdma").over_budget.any()


@pytest.mark.parametrize("tables", [[TABLE] * 4, [TABLE, None, TABLE, None]])
def test_sao_is_the_shortest_round_by_brute_force(tables):
    tabled = problem(tables)
    plan = allocate(tabled)
    assert not plan.over_budget.any()
    assert plan.bandwidth_hz.sum() <= 5e6 * (1 + 1e-9)

    def need(round_s):      # least bandwidth over a fine grid of clocks
        total = 0.0
        for n, table in enumerate(tables):
            hz = np.linspace(tabled.cpu_min_hz[n], 2e9, 4001)
            watts = np.interp(hz, *zip(*table, strict=True)) if table else 1e-28 * hz**3
            left = np.minimum(round_s - tabled.cycles[n] / hz, (2.5 - watts * tabled.cycles[n] / hz) / 0.2)
            if left.max() <= 0.0:
                return np.inf
            total += float(tabled.link.bandwidth(1e6 / left.max(), tabled.snr_hz[n]))
        return total

    assert need(plan.round_s * 1.002) <= 5e6 < need(plan.round_s * 0.998)


def test_methods_without_a_table_say_so_and_infeasible_ones_name_the_devices():
    for method in ("fedl", "rra", "sao-joint", "sao-common-power", "algorithm5", "algorithm6", "sao-adaptive"):
        with pytest.raises(InputError, match="table of CPU power"):
            allocate(problem([TABLE] * 2), method)
    with pytest.raises(Infeasible, match="budget"):
        allocate(problem([TABLE] * 2, budget_j=0.1))


def test_a_run_draws_what_the_table_says():
    table = {"model": "table", "watts": [["0.5 GHz", "0.2 W"], ["1 GHz", "0.5 W"], ["2 GHz", "2.4 W"]]}
    run = simulate(load_scenario("tiny", {f"{CPU}.power": table, "population.node.budget": "100 mJ"}))
    job = run.jobs.row(0, named=True)
    assert job["cpu_hz"] == 2e9                                     # 1e7 cycles: 5 ms at 2.4 W, and 0.1 W to send
    assert job["energy_j"] == pytest.approx(0.005 * 2.4 + 0.1 * job["upload_s"])
    volts = {"model": "table", "volts": [["0.5 GHz", "0.6 V"], ["2 GHz", "1 V"]], "farads": 1e-9, "static": "0.4 W"}
    by_volts = load_scenario("tiny", {f"{CPU}.power": volts, "population.node.budget": "1 J"})
    job = simulate(by_volts).jobs.row(0, named=True)
    assert job["energy_j"] == pytest.approx(0.005 * 2.4 + 0.1 * job["upload_s"])
    plain = simulate(load_scenario("tiny")).summary["trace_sha256"]
    assert simulate(load_scenario("tiny", {f"{CPU}.power": {"model": "kappa"}})).summary["trace_sha256"] == plain


def test_circuit_power_and_amplifier_cost_energy_and_change_no_rate():
    plain = simulate(load_scenario("tiny", {"population.node.budget": "1 J"})).jobs
    costly = simulate(load_scenario("tiny", {"population.node.budget": "1 J", f"{RADIO}.efficiency": 0.25,
                                             f"{RADIO}.circuit_power": "150 mW"})).jobs
    assert costly["upload_s"].to_list() == pytest.approx(plain["upload_s"].to_list())
    assert costly["power_w"].to_list() == pytest.approx([0.1 / 0.25 + 0.15] * len(costly))
    spent = (costly["energy_j"] - plain["energy_j"]).to_list()
    assert spent == pytest.approx([(0.55 - 0.1) * upload_s for upload_s in costly["upload_s"]])


def test_circuit_power_with_fading_a_downlink_and_measured_rates():
    lossy = {f"{RADIO}.efficiency": 0.5, "population.node.budget": "1 J"}
    for more in ({"cell.fading": {"model": "rayleigh", "coherence": "5 ms"}, "cell.downlink.power": "1 W"},
                 {f"{RADIO}.rate": {"t": [0, 0.01], "bit_per_s": [[1e7] * 5, [2e7] * 5]}}):
        base = simulate(load_scenario("tiny", {**more, "population.node.budget": "1 J"}), seed=2).jobs
        other = simulate(load_scenario("tiny", {**more, **lossy}), seed=2).jobs
        assert other["t1"].to_list() == pytest.approx(base["t1"].to_list())
        assert other["energy_j"].sum() > base["energy_j"].sum()


@pytest.mark.parametrize(("changes", "words"), [
    ({f"{CPU}.power": {"model": "table", "watts": [["1 GHz", "1 W"], ["2 GHz", "2 W"]]}}, ["cover all clocks"]),
    ({f"{CPU}.power": {"model": "table", "watts": [["2 GHz", "1 W"], ["0.5 GHz", "2 W"]]}}, ["rising frequency"]),
    ({f"{CPU}.power": {"model": "table"}}, ["watts or volts"]),
    ({f"{CPU}.power": {"model": "table", "volts": [["0.5 GHz", "1 V"], ["2 GHz", "1 V"]]}}, ["farads"]),
    ({f"{CPU}.power": {"model": "cubic"}}, ["kappa"]),
    ({f"{RADIO}.efficiency": 0}, ["efficiency"]),
    ({f"{RADIO}.efficiency": 1.5}, ["at most 1"]),
])
def test_refused(changes, words):
    with pytest.raises(InputError) as refused:
        load_scenario("tiny", changes)
    assert all(word in str(refused.value) for word in words), str(refused.value)


def test_a_method_that_chooses_powers_refuses_circuit_power():
    with pytest.raises(InputError, match="circuit_power"):
        simulate(load_scenario("tiny", {f"{RADIO}.circuit_power": "1 mW", "allocation.method": "sao-joint"}))

"""Each method in a world small enough to know whom it must choose."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from netsim.learning.aggregation import unbiased_shares
from netsim.selection import Choice, make_selection
from netsim.selection.latency import by_rank, probabilities, tiers_by_time
from netsim.selection.method import compute_s, draw, upload_s


def test_fedavg_is_uniform(view):
    method = make_selection("fedavg", {})
    chosen = [method(view(available=[1, 1, 1, 1, 0, 0]), np.random.default_rng(seed)).devices for seed in range(600)]
    counts = np.bincount(np.concatenate(chosen), minlength=6)
    assert counts[4:].sum() == 0
    assert (abs(counts[:4] - 300) < 60).all()      # half of 600 each; five standard deviations


def test_draw_follows_the_weights_in_order():
    rng = np.random.default_rng(0)
    drawn = [tuple(draw(np.array([1.0, 2.0, 1.0, 0.0]), 2, rng)) for _ in range(8000)]
    for first, second in permutations(range(3), 2):
        weight = [1, 2, 1]
        expected = weight[first] / 4 * weight[second] / (4 - weight[first])
        assert drawn.count((first, second)) / 8000 == pytest.approx(expected, abs=0.025)
    assert draw(np.array([0.0, 1.0]), 2, rng).tolist() == [1, 0]


class TestIcas:
    IMPORTANCE, TIME = np.array([0.1, 0.4, 0.2, 0.3]), np.array([1.0, 2.0, 0.5, 4.0])

    @pytest.mark.parametrize("rho", [1e-6, 0.3, 0.9, 1.0])
    @pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
    def test_probabilities_sum_to_one_and_share_one_lambda(self, rho, scale):
        p = probabilities(scale * self.IMPORTANCE, self.TIME, rho)
        assert p.sum() == pytest.approx(1, abs=1e-12)
        lam = rho * (scale * self.IMPORTANCE / p) ** 2 - (1 - rho) * self.TIME
        assert lam == pytest.approx(np.full(4, lam[0]), abs=1e-6 * (abs(lam).max() + (1 - rho) * 4))

    def test_with_importance_alone_they_are_the_importance(self):
        assert probabilities(self.IMPORTANCE, self.TIME, 1.0) == pytest.approx(self.IMPORTANCE)

    def test_a_worked_example(self):
        # rho = 1/2, lam = 2: 1/2 sqrt(.5 / 2) = 1/4, and 3 sqrt(.5 / (6 + 2)) = 3/4.
        assert probabilities(np.array([0.5, 3.0]), np.array([0.0, 12.0]), 0.5) == pytest.approx([0.25, 0.75])
        # lam = -1/2: 1/2 sqrt(.5 / (1 - .5)) = 1/2, and sqrt(.5 / (2.5 - .5)) = 1/2.
        assert probabilities(np.array([0.5, 1.0]), np.array([2.0, 5.0]), 0.5) == pytest.approx([0.5, 0.5])

    def test_a_far_device_is_less_likely(self, view, rng):
        cell = view(devices=2, cohort=2, gain=[1e-9, 1e-13])
        choice = make_selection("icas", {"rho": 0.5})(cell, rng)
        p = dict(zip(choice.devices.tolist(), choice.probability, strict=True))
        assert p[0] > p[1]
        assert sum(p.values()) == pytest.approx(1)

    def test_the_estimate_is_unbiased(self, view):
        samples, gradient = np.array([10, 20, 30, 40]), np.array([3.0, -1.0, 0.5, 2.0])
        p = probabilities(samples / 100 * abs(gradient), self.TIME, 0.9)
        mean = 0.0
        for order in permutations(range(4), 2):
            chosen = list(order)
            chance = p[chosen[0]] * p[chosen[1]] / (1 - p[chosen[0]])
            shares = unbiased_shares(samples[chosen], 100, Choice(chosen, p[chosen]).chances)
            mean += chance * (shares @ gradient[chosen])
        assert mean == pytest.approx(samples @ gradient / 100)

    def test_devices_without_a_gradient_count_as_the_largest(self, view, rng):
        cell = view(devices=3, cohort=3, gradient_norm=[1.0, 4.0, np.nan])
        choice = make_selection("icas", {"rho": 1.0})(cell, rng)
        assert choice.probability[np.argsort(choice.devices)] == pytest.approx([1 / 9, 4 / 9, 4 / 9])
        nobody = make_selection("icas", {})(view(round=1, gradient_norm=np.nan, last_round=0), rng)
        assert nobody.probability == pytest.approx([1 / 6, 1 / 6])

    def test_zero_gradients_and_dead_channels_do_no_harm(self, view, rng):
        cell = view(cohort=6, gradient_norm=[0, 1, 0, 1, 0, 0], gain=[1e-10] * 5 + [0])
        choice = make_selection("icas", {})(cell, rng)
        assert sorted(choice.devices) == list(range(6))
        assert np.isfinite(choice.probability).all()
        assert (choice.probability > 0).all()


def test_round_robin_goes_in_circles_and_steps_over_the_dead(view, rng):
    method = make_selection("round-robin", {})
    turns = [method(view(cohort=4, available=[1, 1, 0, 1, 1, 1]), rng).devices.tolist() for _ in range(3)]
    assert turns == [[0, 1, 3, 4], [5, 0, 1, 3], [4, 5, 0, 1]]


def test_power_of_choice_takes_the_largest_losses_of_its_candidates(view, rng):
    asked = []

    def local_loss(devices):
        asked.append(devices.tolist())
        return np.array([3.0, 9, 1, 7, 5, 8])[devices]

    chosen = make_selection("power-of-choice", {"candidates": 6})(view(local_loss=local_loss), rng).devices
    assert chosen.tolist() == [1, 5]
    make_selection("power-of-choice", {})(view(local_loss=local_loss, samples=[1, 0, 0, 1, 1, 1]), rng)
    assert asked[1] == [0, 3, 4, 5]      # twice the cohort, by data size
    assert len(make_selection("power-of-choice", {"candidates": 1})(view(local_loss=local_loss), rng).devices) == 2


class TestOort:
    def test_scores(self, view):
        # n loss = 100, 200, 300 -> 0, .5, 1; sqrt(.1 ln R / last) with ln R = 10 / 4 -> .5 at last 1; T_pref = 1.
        cell = view(devices=3, loss=[1.0, 2, 3], last_round=[1, 1, 4], duration_s=[1.0, 2.0, 1.0], round=np.exp(2.5))
        assert make_selection("oort", {}).scores(cell, np.arange(3)) == pytest.approx([0.5, 1.0 / 4, 1.25])
        slow = make_selection("oort", {"preferred": "500 ms"}).scores(cell, np.arange(3))
        assert slow == pytest.approx([0.5 / 4, 1.0 / 16, 1.25 / 4])

    def test_exploits_the_best_and_explores_the_untried(self, view, rng):
        cell = view(loss=[1.0, 9, 1, np.nan, np.nan, 1], last_round=[1, 1, 1, 0, 0, 1])
        chosen = make_selection("oort", {"explore": 0.5, "decay": 1.0})(cell, rng).devices.tolist()
        assert chosen[0] == 1
        assert chosen[1] in (3, 4)

    def test_only_devices_near_the_last_score_needed_are_drawn(self, view):
        cell = view(loss=[10.0, 9.9, 5, 1, 1, 1], cohort=1)
        chosen = {int(make_selection("oort", {})(cell, np.random.default_rng(seed)).devices[0]) for seed in range(50)}
        assert chosen == {0, 1}

    def test_the_untried_fill_up_when_too_few_are_tried(self, view, rng):
        cell = view(round=1, loss=np.nan, last_round=0, duration_s=np.nan)
        assert len(make_selection("oort", {"explore": 0.0, "explore_least": 0.0})(cell, rng).devices) == 2


class TestRra:
    def test_takes_the_near_and_leaves_the_far_and_the_slow(self, view, rng):
        # A deadline of 2 s; device 4 computes for 3 s. The reward of 1 J: N0 z ln2 / h, the least cost of a device, is
        # 2.8e-5 J at gain 1e-10 and above 1 J at gains below 2.8e-15, which are never worth it.
        gain, compute_s = [1e-10, 1e-10, 1e-15, 1e-10, 1e-10, 2e-15], np.array([0.1, 0.1, 0.1, 0.1, 3, 0.1])
        cell = view(gain=gain, cycles=compute_s * 1e9)
        method = make_selection("rra", {"deadline": "2 s", "weight": "1 J"})
        assert method(cell, rng).devices.tolist() == [0, 1, 3]

    def test_a_larger_reward_takes_more(self, view, rng):
        cell = view(devices=40, bits=4e6, gain=np.geomspace(1e-14, 1e-9, 40))
        sizes = [len(make_selection("rra", {"deadline": "10 s", "weight": weight})(cell, rng).devices)
                 for weight in ("1 uJ", "1 mJ", "1 J", "1 kJ")]
        assert sizes == sorted(sizes)
        assert sizes[0] < sizes[-1]

    @pytest.mark.parametrize("name", ["rra", "rra-as-run"])
    def test_the_fastest_goes_alone_when_nobody_is_worth_it(self, view, rng, name):
        cell = view(cycles=np.array([3, 2, 1, 4, 5, 6]) * 1e9, gain=[1e-10] * 5 + [0])
        for options in ({"deadline": "1 ms"}, {"weight": "1 nJ"}):
            assert make_selection(name, options)(cell, rng).devices.tolist() == [2]

    def test_dead_channels_are_left_out(self, view, rng):
        cell = view(gain=[1e-9, 0, 1e-9, 0, 0, 0])
        assert make_selection("rra", {"weight": "1 kJ"})(cell, rng).devices.tolist() == [0, 2]
        assert len(make_selection("rra", {})(view(gain=0.0), rng).devices) == 1

    def test_as_run_in_the_papers_cell_a_random_half_take_part(self, view):
        # The calibrated cell of the paper, gains drawn as it does; a deadline of 0.3 s and 0.3 mJ.
        world = np.random.default_rng(0)
        loss_db = 128.1 + 37.6 * np.log10(0.3 * np.sqrt(world.random(100))) + 8 * world.normal(size=100)
        cell = view(
            devices=100, cohort=10, gain=10 ** (-loss_db / 10), cycles=world.uniform(5e7, 1.5e8, 100), bits=448e3,
            bandwidth_hz=20e6, noise_w_per_hz=10**-20.4, cpu_max_hz=2e9, power_w=0.2)
        options = {"deadline": "300 ms", "weight": "0.3 mJ"}
        as_run, exact = ([make_selection(name, options)(cell, np.random.default_rng(seed)).devices.tolist()
                          for seed in range(20)] for name in ("rra-as-run", "rra"))
        assert 35 < np.mean([len(chosen) for chosen in as_run]) < 60
        assert len({tuple(chosen) for chosen in as_run}) == 20
        assert len({tuple(chosen) for chosen in exact}) == 1


class TestFedCS:
    def test_takes_the_one_that_adds_least_while_it_fits(self, view, rng):
        # Uploads over the full band take 1 s each; computing takes 0, 3, 1, 5, 2, 9 s. The schedule: device 0 ends at
        # 1, then 2 (done at 1) at 2, 4 (done at 2) at 3, 1 (done at 3) at 4, 3 (done at 5) at 6, 5 at 10.
        rate = 1e6 / upload_s(view(), 1e6)[0]
        cell = view(cohort=6, bits=rate, cycles=np.array([0.0, 3, 1, 5, 2, 9]) * 1e9)
        assert upload_s(cell, 1e6) == pytest.approx(np.ones(6))
        assert compute_s(cell) == pytest.approx([0, 3, 1, 5, 2, 9])
        order = [0, 2, 4, 1, 3, 5]
        for deadline, count in [("1 ms", 1), ("3.5 s", 3), ("6.1 s", 5), ("1 min", 6)]:
            assert make_selection("fedcs", {"deadline": deadline})(cell, rng).devices.tolist() == order[:count]

    def test_without_a_deadline_half_of_the_devices_set_it(self, view, rng):
        # Equal shares: uploads of 1 s, computing 0, 1, 2, 3, 4, 5 s: the median is 3.5 s. Over the full band an upload
        # takes a sixth of a second and a bit, so computing decides: 0 to 3 fit, 4 does not.
        rate = 1e6 / upload_s(view(), 1e6 / 6)[0]
        cell = view(cohort=6, bits=rate, cycles=np.arange(6.0) * 1e9)
        assert make_selection("fedcs", {})(cell, rng).devices.tolist() == [0, 1, 2, 3]

    def test_candidates_are_random(self, view):
        method = make_selection("fedcs", {"deadline": "1 h", "candidates": 2})
        seen = {tuple(sorted(method(view(), np.random.default_rng(seed)).devices.tolist())) for seed in range(200)}
        assert len(seen) == 15      # every pair of six


class TestKCenter:
    # On a line: 0, 1, 2 near each other, 10 and 30 alone, and 5 between.
    LINE = np.array([[0.0], [1], [2], [10], [30], [5]])

    def test_the_farthest_from_those_chosen(self, view):
        cell = view(cohort=3, local_weights=self.LINE, layers={"fc.weight": slice(0, 1)})
        for seed in range(20):
            chosen = make_selection("k-center", {})(cell, np.random.default_rng(seed)).devices.tolist()
            after = {0: [4, 3], 1: [4, 3], 2: [4, 3], 3: [4, 0], 4: [0, 3], 5: [4, 0]}
            assert chosen[1:] == after[chosen[0]]

    def test_equal_models_are_no_trouble(self, view, rng):
        chosen = make_selection("k-center", {})(view(cohort=4, local_weights=np.zeros((6, 2))), rng).devices
        assert len(set(chosen.tolist())) == 4

    def test_unknown_models_come_last(self, view, rng):
        cell = view(cohort=5, local_weights=self.LINE, last_round=[1, 1, 1, 1, 0, 0])
        chosen = make_selection("k-center", {})(cell, rng).devices.tolist()
        assert sorted(chosen[:4]) == [0, 1, 2, 3]


class TestTiFL:
    # Three tiers of two devices by computing time: {1, 4}, {0, 3}, {2, 5}.
    CYCLES = np.array([3.0, 1, 5, 4, 2, 6]) * 1e9

    def test_a_cohort_is_one_tier(self, view):
        method = make_selection("tifl", {"tiers": 3})
        cell = view(cycles=self.CYCLES)
        seen = {tuple(sorted(method(cell, np.random.default_rng(seed)).devices.tolist())) for seed in range(40)}
        assert seen == {(1, 4), (0, 3), (2, 5)}

    def test_credits_are_spent_before_any_tier_gets_more(self, view, rng):
        method = make_selection("tifl", {"tiers": 3, "credits": 2})
        tiers = []
        for _ in range(6):
            method(view(cycles=self.CYCLES), rng)
            tiers.append(int(method.state["drawn"][0]))
        assert sorted(tiers) == [0, 0, 1, 1, 2, 2]
        method(view(cycles=self.CYCLES), rng)
        assert method.state["credits"].sum() == 5

    def test_no_progress_ranks_tiers_by_loss(self, view, rng):
        loss = np.array([2.0, 1, 9, 2, 1, 9])      # tier 2 is worst, tier 0 best
        method = make_selection("tifl", {"tiers": 3, "interval": 2})
        method(view(cycles=self.CYCLES, local_loss=lambda d: loss[d]), rng)
        assert method.state["probability"] == pytest.approx([1 / 3] * 3)
        method(view(cycles=self.CYCLES, round=4, local_loss=lambda d: loss[d]), rng)
        assert method.state["probability"] == pytest.approx([0, 1 / 3, 2 / 3])

    def test_a_small_tier_is_filled_from_its_neighbours(self, view, rng):
        cell = view(cycles=self.CYCLES, available=[0, 1, 1, 0, 0, 1], cohort=2)
        method = make_selection("tifl", {"tiers": 3})
        for _ in range(10):
            chosen = method(cell, rng).devices.tolist()
            assert (1 in chosen) == (method.state["drawn"][0] == 0)
            assert len(chosen) == 2

    def test_the_last_tier_alive_is_drawn_whatever_its_rank(self, view, rng):
        method = make_selection("tifl", {"tiers": 3})
        method(view(cycles=self.CYCLES), rng)
        method.state["probability"] = np.array([0, 1 / 3, 2 / 3])
        assert sorted(method(view(available=[0, 1, 0, 0, 1, 0]), rng).devices) == [1, 4]

    def test_helpers(self):
        assert tiers_by_time(np.array([5.0, 1, 3, 2, 4]), 2).tolist() == [1, 0, 0, 0, 1]
        assert by_rank(np.array([1.0, 3, 2])) == pytest.approx([0, 2 / 3, 1 / 3])


def test_proportional_fair_compares_each_channel_with_its_own_mean(view, rng):
    method = make_selection("proportional-fair", {})
    method(view(cohort=1, gain=[1, 1, 1, 1, 1, 8.0]), rng)
    # Means are now 2, 1, 1, 1, 1, 6: ratios 1.5, 1, ... and 4/6.
    assert method(view(round=3, cohort=1, gain=[3, 1, 1, 1, 1, 4.0]), rng).devices.tolist() == [0]


def test_proportional_fair_without_fading_takes_turns(view, rng):
    method = make_selection("proportional-fair", {})
    last = np.array([1, 1, 1, 1, 1, 1])
    turns = []
    for k in range(2, 6):
        chosen = method(view(round=k, last_round=last, gain=0.1 * np.arange(1, 7)), rng).devices
        last[chosen] = k
        turns.append(chosen.tolist())
    assert turns == [[0, 1], [2, 3], [4, 5], [0, 1]]

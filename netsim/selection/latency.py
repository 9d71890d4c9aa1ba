"""Selection by the time that devices take: ``fedcs``, ``tifl``, ``oort`` and ``icas``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from netsim.base.fields import Fraction, Natural, Time
from netsim.base.types import Floats, Ints
from netsim.selection.method import Method, compute_s, draw, equal_share_s, typical_s, upload_s
from netsim.selection.view import Choice, View

CUTOFF = 0.95       # fraction of the last device's score from which devices take part in the draw
STALENESS = 0.1     # weight of the rounds since a device was last used
LONGEST_S = 1e9     # time in seconds of an upload at rate 0
LEAST = 1e-9        # minimum norm relative to the largest, so that every device can be drawn


@dataclass(frozen=True)
class FedCS(Method):
    """Add, of random candidates, repeatedly the one that lengthens the round least, while it meets the deadline.

    The schedule: all compute in parallel at their maximum frequency, and upload in sequence over the full band, so a
    device adds its upload and, if it is still computing, the wait for it. The cohort is as large as the deadline
    allows, at most S; if no device meets it, the fastest takes part alone. The default ``deadline`` is the median time
    of the devices with an equal share of the band. ``candidates`` is the number of devices asked for their times, by
    default all.

    Source: Nishio and Yonetani, Client Selection for Federated Learning with Heterogeneous Resources in Mobile Edge,
    ICC 2019.
    """

    barrier: ClassVar[bool] = True
    varies: ClassVar[bool] = True

    deadline: Time | None = None
    candidates: Natural | None = None

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        there = np.flatnonzero(view.available)
        left = np.sort(rng.permutation(there)[: self.candidates])
        compute, upload = compute_s(view), upload_s(view, view.bandwidth_hz)
        deadline = self.deadline or typical_s(view)
        chosen: list[int] = []
        end_s = 0.0
        while left.size and len(chosen) < view.cohort_size:
            adds = upload[left] + np.maximum(0.0, compute[left] - end_s)
            best = int(np.argmin(adds))
            end_s += adds[best]
            if chosen and end_s > deadline:
                break
            chosen.append(int(left[best]))
            left = np.delete(left, best)
        return Choice(np.array(chosen, dtype=np.int64))


@dataclass(frozen=True)
class TiFL(Method):
    """Draw a latency tier, then S random devices of it.

    Tiers of equal size are formed once, by the time of a round with an equal share of the band. A draw costs its tier
    one of its ``credits``; a tier without credits pauses until all tiers have spent theirs and are refilled. At first
    all tiers are equally likely. Every ``interval`` rounds the global model's mean loss in each tier is measured; if
    that of the tier drawn last has not fallen, tiers are ranked by loss: of m, the worst gets the probability (m - 1) /
    D, the next (m - 2) / D and so on to 0, D = m (m - 1) / 2. (The source ranks by accuracy on the devices' test data.)
    A tier too small for a cohort is filled up from its neighbours.

    Source: Chai et al., TiFL: A Tier-based Federated Learning System, HPDC 2020.
    """

    barrier: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"local loss"})

    tiers: Annotated[int, Field(ge=2)] = 5
    credits: Natural = 100
    interval: Natural = 20

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        state, count = self.state, min(self.tiers, len(view.available))
        if not state:
            state["tier"] = tiers_by_time(equal_share_s(view), count)
            state["credits"] = np.full(count, self.credits)
            state["probability"] = np.full(count, 1 / count)
            state["loss"] = np.full(count, np.nan)
            state["drawn"] = np.zeros(1, dtype=np.int64)
        if view.round % self.interval == 0:
            self._measure(view)
        tier = self._draw_tier(view, rng)
        there = rng.permutation(np.flatnonzero(view.available))
        near = np.argsort(np.abs(state["tier"][there] - tier), kind="stable")     # its own first, then neighbours
        return Choice(there[near[: view.cohort_size]])

    def _measure(self, view: View) -> None:
        """Measure each tier's loss, and rank the tiers again if the last one drawn has made no progress."""
        assert view.local_loss is not None
        there = np.flatnonzero(view.available)
        each = view.local_loss(there)
        before, drawn = self.state["loss"], self.state["drawn"][0]
        tiers = [each[self.state["tier"][there] == tier] for tier in range(len(before))]
        loss = np.array([own.mean() if own.size else -np.inf for own in tiers])      # a tier that is gone ranks last
        if loss[drawn] >= before[drawn]:
            self.state["probability"] = by_rank(loss)
        self.state["loss"] = loss

    def _draw_tier(self, view: View, rng: np.random.Generator) -> int:
        """Draw a tier with available devices and credits by its probability, and take one credit."""
        state = self.state
        credit = state["credits"]
        alive = np.isin(np.arange(len(credit)), state["tier"][view.available])
        if not (alive & (credit > 0)).any():
            credit = np.full_like(credit, self.credits)
        ready = alive & (credit > 0)
        tier = int(draw(ready * (state["probability"] + 1e-9), 1, rng)[0])     # the least likely, if only it is ready
        state["credits"] = credit - (np.arange(len(credit)) == tier)
        state["drawn"] = np.array([tier])
        return tier


def tiers_by_time(time_s: Floats, count: int) -> Ints:
    """Return the tier of each device: 0 for the fastest 1/count of them, and so on."""
    rank = np.argsort(np.argsort(time_s, kind="stable"), kind="stable")
    return rank * count // len(time_s)


def by_rank(loss: Floats) -> Floats:
    """Return probabilities that fall with the rank, largest loss first: (m - 1, m - 2, ..., 0) / D."""
    rank = np.argsort(np.argsort(-loss, kind="stable"), kind="stable")
    weight: Floats = (len(loss) - 1 - rank).astype(np.float64)
    return weight / max(float(weight.sum()), 1.0)


@dataclass(frozen=True)
class Oort(Method):
    """Exploit devices with a high score, and explore a falling share of untried ones.

    The score is the utility n_k * loss_k, normalised to [0, 1] over the devices tried, plus sqrt(0.1 ln R / last round
    used), times (T_pref / t_k)^2 for a device slower than T_pref. The exploited share is drawn by score among the tried
    devices that reach 95 % of the score of the last one it has room for; the rest of the cohort is drawn from the
    untried by speed (1 / time with an equal share of the band). That rest is eps S, where eps starts at ``explore`` and
    falls by the factor ``decay`` per round down to ``explore_least``. ``preferred`` is T_pref, by default the median
    time of the devices tried.

    Utility uses the mean loss instead of the root mean square over samples, which the server does not receive here.
    The authors' program normalises it too: without that the staleness term would have no effect.

    Source: Lai et al., Oort: Efficient Federated Learning via Guided Participant Selection, OSDI 2021.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"loss"})

    explore: Fraction = 0.9
    decay: Fraction = 0.95
    explore_least: Fraction = 0.2
    preferred: Time | None = None

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        tried = np.flatnonzero(view.available & (view.last_round > 0))
        untried = np.flatnonzero(view.available & (view.last_round == 0))
        size = min(view.cohort_size, len(tried) + len(untried))
        eps = max(self.explore_least, self.explore * self.decay ** (view.round - 1))
        explored = min(max(round(eps * size), size - len(tried)), len(untried))
        new = untried[draw(1 / equal_share_s(view)[untried], explored, rng)]
        return Choice(np.concatenate([self._exploit(view, tried, size - explored, rng), new]))

    def _exploit(self, view: View, tried: Ints, count: int, rng: np.random.Generator) -> Ints:
        if count == 0:
            return tried[:0]
        score = self.scores(view, tried)
        enough = score >= CUTOFF * np.sort(score)[-count]
        good: Ints = tried[enough]
        return good[draw(score[enough], count, rng)]

    def scores(self, view: View, tried: Ints) -> Floats:
        utility = view.population.samples[tried] * np.nan_to_num(view.loss[tried])      # NaN where training diverged
        utility = (utility - utility.min()) / (np.ptp(utility) or 1.0)
        score = utility + np.sqrt(STALENESS * np.log(view.round) / view.last_round[tried])
        time_s = view.duration_s[tried]
        preferred = self.preferred or np.median(time_s)
        slow = np.where(time_s > preferred, preferred / time_s, 1.0)
        result: Floats = score * slow**2
        return result


@dataclass(frozen=True)
class Icas(Method):
    """Draw S devices without replacement by p_k = (n_k/n) |g_k| sqrt(rho / ((1 - rho) T_k + lam)), sum p = 1.

    n_k/n is the device's share of the data, |g_k| the norm of its gradient when it last took part (the largest known
    norm for a device that never did), T_k its upload time over the full band, rho the weight of importance.
    ``Choice.probability`` is p_k in the order drawn, for ICAS's unbiased aggregation.

    Source: Ren et al., Scheduling for Cellular Federated Edge Learning with Importance and Channel Awareness, IEEE
    Transactions on Wireless Communications, 2020.
    """

    barrier: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"gradient"})
    gives: ClassVar[frozenset[str]] = frozenset({"chances"})

    rho: Annotated[float, Field(gt=0, le=1)] = 0.9

    def __call__(self, view: View, rng: np.random.Generator) -> Choice:
        there = np.flatnonzero(view.available)
        norm = view.gradient_norm[there]
        known = np.isfinite(norm)
        most = norm[known].max() if known.any() else 1.0
        norm = np.maximum(np.where(known, norm, most), LEAST * most or 1.0)
        samples = view.population.samples[there]
        p = probabilities(samples / samples.sum() * norm, upload_s(view, view.bandwidth_hz)[there], self.rho)
        drawn = draw(p, view.cohort_size, rng)
        return Choice(there[drawn], p[drawn])


def probabilities(importance: Floats, time_s: Floats, rho: float) -> Floats:
    """Return p = importance sqrt(rho / ((1 - rho) T + lam)) with the lam, possibly negative, for which they sum to 1.

    With mu = lam + (1 - rho) min T the sum falls in mu, and lies above 1 where the fastest device alone reaches 1,
    and below 1 where all devices together would not if all were as fast as the fastest.
    """
    from scipy.optimize import brentq

    later = (1 - rho) * (np.minimum(time_s, LONGEST_S) - min(time_s.min(), LONGEST_S))

    def given(log_mu: float) -> Floats:
        p: Floats = importance * np.sqrt(rho / (later + np.exp(log_mu)))
        return p

    fastest = importance[np.argmin(later)]
    low, high = np.log(rho * fastest**2) - 1e-9, np.log(rho * importance.sum() ** 2) + 1e-9     # margin for rounding
    p = given(brentq(lambda log_mu: given(log_mu).sum() - 1, low, high, xtol=1e-12))
    return p / float(p.sum())

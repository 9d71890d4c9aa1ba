"""Selection ``oort``: useful and fast devices, with a share of untried ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netsim.base.arrays import Floats, Ints
from netsim.base.fields import Fraction, Time
from netsim.selection.method import Method, draw, equal_share_s
from netsim.selection.view import Choice, View

CUTOFF = 0.95       # devices within this of the last one's score take part in the draw
STALENESS = 0.1


@dataclass(frozen=True)
class Oort(Method):
    """Exploits devices with a high score, explores a falling share of untried ones.

    The score is the utility n_k * loss_k, brought to [0, 1] over the devices tried, plus sqrt(0.1 ln R / last round
    used), times (T_pref / t_k)^2 for a device slower than T_pref. The exploited share is drawn by score among the tried
    devices that reach 95 % of the score of the last one it has room for; the rest of the cohort is drawn from the
    untried by speed (1 / time with an equal share of the band). That rest is eps S, where eps starts at ``explore`` and
    falls by the factor ``decay`` a round down to ``explore_least``. ``preferred`` is T_pref, by default the median time
    of the devices tried.

    Utility takes the mean loss for the root mean square over samples, which a server does not get here. Scaling it is
    what the authors' program does: on its own scale the staleness term would never count.

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
        """The score of each device tried."""
        utility = view.population.samples[tried] * np.nan_to_num(view.loss[tried])      # NaN where training diverged
        utility = (utility - utility.min()) / (np.ptp(utility) or 1.0)
        score = utility + np.sqrt(STALENESS * np.log(view.round) / view.last_round[tried])
        time_s = view.duration_s[tried]
        preferred = self.preferred or np.median(time_s)
        slow = np.where(time_s > preferred, preferred / time_s, 1.0)
        result: Floats = score * slow**2
        return result

"""Selection ``favor``: the devices that a trained agent rates highest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netsim.base.arrays import Ints
from netsim.base.errors import InputError
from netsim.selection.clusters import ModelMethod, known_models
from netsim.selection.method import highest
from netsim.selection.view import View

if TYPE_CHECKING:
    from netsim.learning.favor import Policy

TRAIN = "train one with `netsim favor-train SCENARIO -o FILE`"


@dataclass(frozen=True)
class Favor(ModelMethod):
    """The S available devices with the largest Q in a double deep Q-network's eyes, which sees all models compressed.

    ``policy`` is the file with the trained network. A device whose model is not known counts as having the global one.

    Source: Wang et al., Optimizing Federated Learning on Non-IID Data with Reinforcement Learning, INFOCOM 2020; the
    agent and its training are in ``netsim.learning.favor``.
    """

    policy: str = ""

    def __post_init__(self) -> None:
        if not self.policy:
            raise InputError("missing", "selection.policy", expected="the file of a trained policy", hint=TRAIN)
        if not Path(self.policy).is_file():
            raise InputError("no-such-file", "selection.policy", f'"{self.policy}"', hint=TRAIN)
        _ = self._agent      # a broken file is found now, not when the first round is over

    @cached_property
    def _agent(self) -> Policy:
        from netsim.learning.favor import load_policy

        return load_policy(self.policy)

    def choose(self, view: View, rng: np.random.Generator) -> Ints:
        models = known_models(view)
        assert view.global_weights is not None
        unknown = view.last_round == 0
        if unknown.any():
            models = np.where(unknown[:, None], view.global_weights, models)
        rating = self._agent.ratings(view.global_weights, models)
        return highest(rating, np.flatnonzero(view.available), view.cohort_size)

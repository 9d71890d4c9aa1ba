"""How much of a signal is lost over a distance: the laws by name, and a user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netsim.base.arrays import Floats, as_floats
from netsim.base.errors import InputError, found
from netsim.base.fields import MOST_DB, Decibels, Frequency, options_in
from netsim.base.registry import Entry, Registry, first_called
from netsim.physics import CLOSEST_M, free_space_loss, log_distance_loss

if TYPE_CHECKING:
    from netsim.scenario.radio import PathLoss

PATH_LOSSES = Registry("path loss", "cell.path_loss.model", {
    "log-distance": Entry("netsim.fleet.path_loss:log_distance", "so many decibels for each tenfold distance"),
    "free-space": Entry("netsim.fleet.path_loss:free_space", "nothing in the way but distance"),
}, given=1, check=first_called("distance_m", "cell.path_loss.model"))


def log_distance(distance_m: Floats, intercept: Decibels, slope: Decibels) -> Floats:
    return log_distance_loss(distance_m, intercept, slope)


def free_space(distance_m: Floats, frequency: Frequency) -> Floats:
    return free_space_loss(distance_m, frequency)


def loss_db(settings: PathLoss, distance_m: Floats) -> Floats:
    """The mean path loss of each device; nearer than one metre counts as one metre, where laws would amplify."""
    law = PATH_LOSSES.make(settings.model, options_in(settings))
    answer = law(np.maximum(distance_m, CLOSEST_M))
    loss = as_floats(answer)
    if loss.shape != distance_m.shape or not (np.abs(loss) <= MOST_DB).all():
        if settings.model in PATH_LOSSES:
            raise InputError("out-of-range", "cell.path_loss", f"{np.max(np.abs(loss)):g} dB", f"at most {MOST_DB} dB",
                             "Its keys and the distances do not fit together")
        raise InputError("wrong-answer", "cell.path_loss.model", f"{settings.model}: {found(answer)}",
                         f"one loss in dB for each of {len(distance_m)} distances, between -{MOST_DB} and {MOST_DB}")
    return loss

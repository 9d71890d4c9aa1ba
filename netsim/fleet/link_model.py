"""Link model of a cell (Shannon's, or a user's own whose results are checked), downlink and path loss."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.arrays import Floats, as_floats
from netsim.base.errors import InputError, ask, found
from netsim.base.fields import MOST_DB, Decibels, Frequency, options_in
from netsim.base.registry import Entry, Registry, first_called
from netsim.base.tolerances import INVERSE
from netsim.physics import CLOSEST_M, SHANNON, LinkModel, Shannon, Values, free_space_loss, log_distance_loss

if TYPE_CHECKING:
    from netsim.scenario import Scenario
    from netsim.scenario.radio import Cell, PathLoss

KEY = "cell.rate.model"
TRIED_SNR = np.geomspace(1e-3, 1e6, 10)      # J over the cell's bandwidth: -30 to 60 dB
TRIED_HZ = np.geomspace(1e-4, 1.0, 200)      # fractions of the cell's bandwidth


def _check(name: str, given: Any) -> None:
    if not (isinstance(given, type) and callable(getattr(given, "rate", None))
            and callable(getattr(given, "bandwidth", None))):
        raise InputError("wrong-interface", KEY, f'"{name}"',
                         "a class with rate(hz, snr_hz) and bandwidth(rate, snr_hz)")


LINKS = Registry("link model", KEY, {
    "shannon": Entry("netsim.physics:Shannon", "Shannon's limit, with an efficiency and a cap"),
}, check=_check)


def link_of(cell: Cell) -> LinkModel:
    """Return the link model of a cell.

    Raises
    ------
    InputError
        A user's own link model returns invalid or inconsistent values.
    """
    if cell.rate is None:
        return SHANNON
    name = cell.rate.model or "shannon"
    if name in LINKS:
        return Shannon(**{option: float(value) for option, value in options_in(cell.rate).items()})
    own = OwnLink(name, options_in(cell.rate))
    own.check_inverse(float(cell.bandwidth))
    return own


class OwnLink:
    """A user's own link model; it is called with arrays of equal length, and its results are checked."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.name = name
        self._own = ask(f"link model {name}", LINKS.make, name, options)

    def rate(self, hz: Values, snr_hz: Values) -> Floats:
        """Return the rate in bit/s for a bandwidth in Hz."""
        return self._answer("rate", hz, snr_hz)

    def bandwidth(self, rate: Values, snr_hz: Values) -> Floats:
        """Return the minimum bandwidth in Hz for a rate in bit/s; inf if none suffices."""
        return self._answer("bandwidth", np.minimum(rate, 1e300), snr_hz)

    def _answer(self, what: str, first: Values, snr_hz: Values) -> Floats:
        given, snr = np.broadcast_arrays(np.asarray(first, np.float64), np.asarray(snr_hz, np.float64))
        asked = given.ravel(), snr.ravel()
        answer = ask(f"link model {self.name}", getattr(self._own, what), *(each.copy() for each in asked))
        values = as_floats(answer)
        expected = f"{what}(...) to return an array with a value for each of {len(asked[0])}"
        if values.shape != asked[0].shape:
            raise InputError("wrong-answer", KEY, f"{self.name}: {found(answer)}", expected)
        wrong = ~(values >= 0.0) | (np.isinf(values) if what == "rate" else False)
        if wrong.any():
            at = int(np.argmax(wrong))
            allowed = "finite and not negative" if what == "rate" else "not negative (inf where no bandwidth is enough)"
            raise InputError("wrong-answer", KEY, f"{self.name}: {what}({asked[0][at]:g}, {asked[1][at]:g}) = "
                             f"{values[at]:g}", allowed)
        return values.reshape(given.shape)

    def check_inverse(self, bandwidth_hz: float) -> None:
        """Raise InputError unless ``bandwidth`` is the minimum in Hz that reaches a rate, for a range of SNRs."""
        hz = TRIED_HZ * bandwidth_hz
        for snr_hz in (TRIED_SNR * bandwidth_hz).tolist():
            most = np.maximum.accumulate(self.rate(hz, snr_hz))       # maximum rate up to each bandwidth
            if not most[-1] > 0.0:
                continue
            need = self.bandwidth(most, snr_hz)
            self._require(np.diff(need, prepend=0.0) >= 0.0, most, snr_hz, need, "no less for a higher rate")
            self._require(need <= hz * (1.0 + INVERSE), most, snr_hz, need,
                          "no more than a bandwidth at which rate(...) reaches it")
            self._require(self.rate(need, snr_hz) >= most * (1.0 - INVERSE), most, snr_hz, need,
                          "a bandwidth at which rate(...) reaches it")

    def _require(self, good: Any, rate: Floats, snr_hz: float, need: Floats, expected: str) -> None:
        if not good.all():
            at = int(np.argmin(good))
            raise InputError("wrong-answer", KEY, f"{self.name}: bandwidth({rate[at]:.6g} bit/s, {snr_hz:.6g} Hz) = "
                             f"{need[at]:.6g} Hz", expected, "bandwidth must be the inverse of rate")


@dataclass(frozen=True)
class Downlink:
    """Distribution of the model in a separate band, by broadcast or one transmission per device.

    Channel gains are those of the uplink.
    """

    bits: float
    bandwidth_hz: float
    power_w: float
    noise_w_per_hz: float
    each: bool = False
    reception_w: float = 0.0
    link: LinkModel = SHANNON

    @classmethod
    def of(cls, scenario: Scenario, bits: float) -> Downlink | None:
        """Return the downlink of a scenario for models of this size; None if the scenario has none."""
        cell = scenario.cell
        table = cell.downlink
        return None if table is None else cls(
            bits=float(bits if table.bits is None else table.bits),
            bandwidth_hz=float(cell.bandwidth if table.bandwidth is None else table.bandwidth),
            power_w=float(table.power), noise_w_per_hz=cell.noise_w_per_hz, each=table.to == "each",
            reception_w=float(table.reception or 0.0), link=link_of(cell))

    def in_part(self, parts: int) -> Downlink:
        """Return the downlink with 1 / ``parts`` of band and power, which divides the rate by ``parts``."""
        return self if parts == 1 else replace(self, bits=self.bits * parts)

    def seconds(self, gain: Floats) -> Floats:
        """Return the seconds of receiving for S devices with these gains that start together.

        A broadcast of z bits takes z / min_n Q_n(B) for all devices, one of S transmissions S z / Q_n(B).
        """
        rate = self.link.rate(self.bandwidth_hz, gain * self.power_w / self.noise_w_per_hz)
        return self.bits * len(gain) / rate if self.each else np.full(len(gain), self.bits / rate.min())

    def joules(self, gain: Floats) -> Floats:
        """Return the energy of receiving in J for devices with these gains."""
        return self.reception_w * self.seconds(gain)


PATH_LOSSES = Registry("path loss", "cell.path_loss.model", {
    "log-distance": Entry("netsim.fleet.link_model:log_distance", "intercept plus slope in dB per decade of distance"),
    "free-space": Entry("netsim.fleet.link_model:free_space", "free-space path loss at a carrier frequency"),
}, given=1, check=first_called("distance_m", "cell.path_loss.model"))


def log_distance(distance_m: Floats, intercept: Decibels, slope: Decibels) -> Floats:
    return log_distance_loss(distance_m, intercept, slope)


def free_space(distance_m: Floats, frequency: Frequency) -> Floats:
    return free_space_loss(distance_m, frequency)


def loss_db(settings: PathLoss, distance_m: Floats) -> Floats:
    """Return the mean path loss in dB of each device; distances below 1 m count as 1 m."""
    law = PATH_LOSSES.make(settings.model, options_in(settings))
    answer = law(np.maximum(distance_m, CLOSEST_M))
    loss = as_floats(answer)
    if loss.shape != distance_m.shape or not (np.abs(loss) <= MOST_DB).all():
        if settings.model in PATH_LOSSES:
            raise InputError("out-of-range", "cell.path_loss", f"{np.max(np.abs(loss)):g} dB", f"at most {MOST_DB} dB",
                             "Check the keys of cell.path_loss and the distances of the devices")
        raise InputError("wrong-answer", "cell.path_loss.model", f"{settings.model}: {found(answer)}",
                         f"one loss in dB for each of {len(distance_m)} distances, between -{MOST_DB} and {MOST_DB}")
    return loss

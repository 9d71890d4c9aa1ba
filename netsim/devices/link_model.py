"""Link model of a cell (Shannon's, or a user's own whose results are checked), downlink and path loss."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from netsim.base.errors import InputError, ask, describe_value
from netsim.base.fields import MOST_DB, Decibels, Frequency, options_in
from netsim.base.registry import Entry, Registry, first_called
from netsim.base.tolerances import INVERSE
from netsim.base.types import Floats, Ints, as_floats
from netsim.physics import (
    CLOSEST_M,
    SHANNON,
    LinkModel,
    Shannon,
    Values,
    free_space_loss,
    log_distance_loss,
)
from netsim.scenario import Scenario
from netsim.scenario.radio import DownlinkTable, PathLoss

KEY = "cell.link.model"
TRIED_SNR = np.geomspace(1e-3, 1e6, 10)      # J over the cell's bandwidth: -30 to 60 dB
TRIED_HZ = np.geomspace(1e-4, 1.0, 200)      # fractions of the cell's bandwidth


def measured() -> None:
    """Stand for the link models of measured rates, which have no options."""


def _check(name: str, given: Any) -> None:
    if not (isinstance(given, type) and callable(getattr(given, "rate", None))
            and callable(getattr(given, "bandwidth", None))):
        raise InputError("wrong-interface", KEY, f'"{name}"',
                         "a class with rate(hz, snr_hz) and bandwidth(rate, snr_hz)")


def shannon(efficiency: float = 1.0, max_spectral_efficiency: float = math.inf) -> Shannon:
    """Return Shannon's limit, under the names of the scenario keys."""
    return Shannon(efficiency, max_spectral_efficiency)


LINKS = Registry("link model", KEY, {
    "shannon": Entry("netsim.devices.link_model:shannon", "Shannon's limit, with an efficiency and a cap"),
    "airtime": Entry("netsim.devices.link_model:measured", "measured rates (radio.rate) of devices that share airtime"),
    "dedicated": Entry("netsim.devices.link_model:measured", "measured rates, each device with a link of its own"),
}, check=_check)


def link_of(scenario: Scenario) -> LinkModel:
    """Return the link model of a scenario's cell; raise InputError if a user's own returns inconsistent values."""
    cell = scenario.cell
    if scenario.rates_measured:
        dedicated = cell.link is not None and cell.link.model == "dedicated"
        return DedicatedLink() if dedicated else Airtime(float(cell.bandwidth))
    if cell.link is None:
        return SHANNON
    name = cell.link.model or "shannon"
    if name in LINKS:
        return shannon(**{option: float(value) for option, value in options_in(cell.link).items()})
    own = UserLink(name, options_in(cell.link))
    own.check_inverse(float(cell.bandwidth))
    return own


NO_BAND_HZ = 1e-3      # of a link that is not shared


@dataclass(frozen=True)
class Airtime(LinkModel):
    """Measured rates whose devices share the airtime: rate = R hz / bandwidth_hz, R the rate of a device alone.

    R stands in place of ``snr_hz``, in bit/s: a share of the band is a share of the airtime.
    """

    bandwidth_hz: float      # of the cell
    measured = True      # rates do not depend on the transmit power

    def rate(self, hz: Values, snr_hz: Values) -> Floats:
        return np.asarray(np.multiply(hz, snr_hz) / self.bandwidth_hz)

    def bandwidth(self, rate: Values, snr_hz: Values) -> Floats:
        return np.asarray(np.divide(rate, snr_hz) * self.bandwidth_hz)


@dataclass(frozen=True)
class DedicatedLink(LinkModel):
    """Measured rates, each device with a link of its own: rate = R in any band, R in place of ``snr_hz`` in bit/s.

    A rate of up to R takes 1 mHz of the band: next to nothing.
    """

    measured = True

    def rate(self, hz: Values, snr_hz: Values) -> Floats:
        return np.asarray(np.where(np.asarray(hz) > 0.0, snr_hz, 0.0))

    def bandwidth(self, rate: Values, snr_hz: Values) -> Floats:
        return np.asarray(np.where(np.asarray(rate) <= snr_hz, NO_BAND_HZ, np.inf))


class UserLink:
    """A user's own link model; it is called with arrays of equal length, and its results are checked."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.name = name
        self._own = ask(f"link model {name}", LINKS.make, name, options)

    def rate(self, hz: Values, snr_hz: Values) -> Floats:
        return self._answer("rate", hz, snr_hz)

    def bandwidth(self, rate: Values, snr_hz: Values) -> Floats:
        return self._answer("bandwidth", np.minimum(rate, 1e300), snr_hz)

    def _answer(self, what: str, first: Values, snr_hz: Values) -> Floats:
        given, snr = np.broadcast_arrays(np.asarray(first, np.float64), np.asarray(snr_hz, np.float64))
        asked = given.ravel(), snr.ravel()
        answer = ask(f"link model {self.name}", getattr(self._own, what), *(each.copy() for each in asked))
        values = as_floats(answer)
        expected = f"{what}(...) to return an array with a value for each of {len(asked[0])}"
        if values.shape != asked[0].shape:
            raise InputError("wrong-answer", KEY, f"{self.name}: {describe_value(answer)}", expected)
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

    Channel gains are those of the uplink. Measured ``rates`` of all devices (bit/s) stand in the place of gains; with
    "dedicated" links devices do not share them.
    """

    bits: float
    bandwidth_hz: float
    power_w: float
    noise_w_per_hz: float
    each: bool = False
    reception_w: float = 0.0
    link: LinkModel = SHANNON
    rates: Floats | None = field(default=None, compare=False)
    radiated: Floats | None = field(default=None, compare=False)      # share of a device's power, a part of its gain

    @classmethod
    def of(
        cls, scenario: Scenario, bits: float, rates: Floats | None = None, radiated: Floats | None = None,
    ) -> Downlink | None:
        """Return the downlink of a scenario for models of this size; None if the scenario has none."""
        cell = scenario.cell
        if not scenario.has_downlink:
            return None
        table = cell.downlink or DownlinkTable()
        return cls(
            bits=float(bits if table.bits is None else table.bits),
            bandwidth_hz=float(cell.bandwidth if table.bandwidth is None else table.bandwidth),
            power_w=float(table.power or 0.0), noise_w_per_hz=cell.noise_w_per_hz, each=table.mode == "unicast",
            reception_w=float(table.receive_power or 0.0), link=link_of(scenario), rates=rates, radiated=radiated)

    def in_part(self, parts: int) -> Downlink:
        """Return the downlink with 1 / ``parts`` of band and power, which divides the rate by ``parts``."""
        return self if parts == 1 or self._dedicated else replace(self, bits=self.bits * parts)

    @property
    def _dedicated(self) -> bool:
        return self.rates is not None and type(self.link) is DedicatedLink

    def seconds(self, gain: Floats, devices: Ints | None = None) -> Floats:
        """Return the seconds of receiving for S devices with these gains, or numbers, that start together.

        A broadcast of z bits takes z / min_n Q_n(B) for all devices, one of S transmissions S z / Q_n(B); over links
        of their own z / R_n.
        """
        if self.radiated is not None:
            gain = gain / (self.radiated if devices is None else self.radiated[devices])
        if self.rates is None:
            rate = self.link.rate(self.bandwidth_hz, gain * self.power_w / self.noise_w_per_hz)
        else:
            rate = self.rates if devices is None else self.rates[devices]
        if self._dedicated:
            return self.bits / rate
        return self.bits * len(gain) / rate if self.each else np.full(len(gain), self.bits / rate.min())

    def joules(self, gain: Floats, devices: Ints | None = None) -> Floats:
        """Return the energy of receiving in J for devices with these gains, or numbers."""
        return self.reception_w * self.seconds(gain, devices)


PATH_LOSSES = Registry("path loss", "cell.path_loss.model", {
    "log-distance": Entry("netsim.devices.link_model:log_distance",
                          "intercept plus slope in dB per decade of distance"),
    "free-space": Entry("netsim.devices.link_model:free_space", "free-space path loss at a carrier frequency"),
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
            raise InputError("out-of-range", "cell.path_loss", f"{loss[np.argmax(np.abs(loss))]:g} dB",
                             f"a loss from -{MOST_DB} to {MOST_DB} dB",
                             "Check the keys of cell.path_loss and the distances of the devices")
        raise InputError("wrong-answer", "cell.path_loss.model", f"{settings.model}: {describe_value(answer)}",
                         f"one loss in dB for each of {len(distance_m)} distances, between -{MOST_DB} and {MOST_DB}")
    return loss

"""The link model of a cell: Shannon's, as the scenario sets it, or one of the user's own, whose answers are checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.arrays import Floats
from netsim.base.errors import InputError, YourCodeError, found
from netsim.base.registry import Entry, Registry
from netsim.base.tolerances import INVERSE
from netsim.physics import SHANNON, LinkModel, Shannon, Values

if TYPE_CHECKING:
    from netsim.scenario.radio import Cell

KEY = "cell.rate.model"
TRIED_SNR = np.geomspace(1e-3, 1e6, 10)      # J over the cell's bandwidth: links from the noise floor to the mast
TRIED_HZ = np.geomspace(1e-4, 1.0, 200)      # parts of the cell's bandwidth


def _check(name: str, given: Any) -> None:
    if not (isinstance(given, type) and callable(getattr(given, "rate", None))
            and callable(getattr(given, "bandwidth", None))):
        raise InputError("wrong-interface", KEY, f'"{name}"',
                         "a class with rate(hz, snr_hz) and bandwidth(rate, snr_hz)")


LINKS = Registry("link model", KEY, {
    "shannon": Entry("netsim.physics:Shannon", "Shannon's limit, with an efficiency and a cap"),
}, check=_check)


def link_options(cell: Cell) -> dict[str, Any]:
    """The settings of the link model: all keys of the table but its name."""
    return {} if cell.rate is None else {
        name: value for name, value in dict(cell.rate).items() if name != "model" and value is not None}


def link_of(cell: Cell) -> LinkModel:
    """What a bandwidth carries in this cell.

    Raises
    ------
    InputError
        Of a link model of the user's own whose answers are unusable, or contradict each other.
    """
    if cell.rate is None:
        return SHANNON
    name = cell.rate.model or "shannon"
    if name in LINKS:
        return Shannon(**{option: float(value) for option, value in link_options(cell).items()})
    own = OwnLink(name, link_options(cell))
    own.check_inverse(float(cell.bandwidth))
    return own


class OwnLink:
    """A link model of the user's own; it is always given arrays of one length, and its answers are checked."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.name = name
        self._own = self._ask(lambda: LINKS.make(name, options))

    def rate(self, hz: Values, snr_hz: Values) -> Floats:
        """Bits per second in so many Hz."""
        return self._answer("rate", hz, snr_hz)

    def bandwidth(self, rate: Values, snr_hz: Values) -> Floats:
        """The least Hz in which the rate is reached; inf where none is enough."""
        return self._answer("bandwidth", np.minimum(rate, 1e300), snr_hz)

    def _answer(self, what: str, first: Values, snr_hz: Values) -> Floats:
        given, snr = np.broadcast_arrays(np.asarray(first, np.float64), np.asarray(snr_hz, np.float64))
        asked = given.ravel(), snr.ravel()
        answer = self._ask(lambda: getattr(self._own, what)(asked[0].copy(), asked[1].copy()))
        try:
            values = np.asarray(answer, dtype=np.float64)
        except (TypeError, ValueError):
            values = np.zeros(0)
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

    def _ask(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except InputError:
            raise
        except Exception as error:
            raise YourCodeError.of(f"link model {self.name}", error) from None

    def check_inverse(self, bandwidth_hz: float) -> None:
        """Raise InputError unless ``bandwidth`` is the least Hz that reach a rate, in links from weak to strong."""
        hz = TRIED_HZ * bandwidth_hz
        for snr_hz in (TRIED_SNR * bandwidth_hz).tolist():
            most = np.maximum.accumulate(self.rate(hz, snr_hz))       # reached somewhere up to each bandwidth
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

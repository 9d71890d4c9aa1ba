"""Calibration of a fleet: parameters with intervals, held-out errors, and the scenario that they make."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.errors import InputError
from netsim.base.figures import save_figure
from netsim.base.files import replace_text
from netsim.base.rng import stream
from netsim.calibration.fleet_file import CalibratedFleet, fleet_of, write_fleet
from netsim.calibration.holdout import Holdout, validate
from netsim.calibration.laws import Laws, availability, notes_on
from netsim.calibration.log import DURATIONS, Log, read_log
from netsim.calibration.page import draw, page_of
from netsim.scenario import Scenario, load_scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Calibration:
    """A fleet fitted to a log.

    Parameters
    ----------
    log : Log
        The log.
    base : Scenario, optional
        Scenario whose learning, selection, server and end the calibrated one has.
    holdout : float, optional
        Share of the last rounds that are predicted from the earlier ones; by default each fifth of the rounds is
        predicted from the others.
    seed : int
        Seed of the draws of held-out predictions.
    """

    def __init__(
        self, log: Log, base: Scenario | None = None, holdout: float | None = None, seed: int = 0,
    ) -> None:
        self.log, self.base, self._last, self.seed = log, base, holdout, seed
        self.laws = Laws.of(log.finished)
        self.notes = notes_on(log, self.laws)

    @cached_property
    def holdout(self) -> Holdout:
        """Predictions of held-out rounds."""
        return validate(self.log, stream(self.seed, "calibration"), self._last)

    @cached_property
    def round_s(self) -> float:
        """Median measured length of a round in seconds."""
        done = self.log.finished
        seconds = np.nansum([done[name] for name in DURATIONS], axis=0)
        longest = np.zeros(int(done.round.max()) + 1)
        np.maximum.at(longest, done.round, seconds)
        return float(np.median(longest[longest > 0]))

    @cached_property
    def availability(self) -> dict[str, Any] | None:
        """Share of finished jobs, and mean durations on and off; None if no job of the log failed."""
        return availability(self.log, self.round_s)

    @property
    def fleet(self) -> CalibratedFleet:
        """The calibrated devices as a scenario, with the uncertainty of their parameters."""
        return fleet_of(self.log, self.laws, self.availability, self.base)

    @property
    def scenario(self) -> Scenario:
        """The calibrated scenario."""
        return self.fleet.scenario

    def as_json(self) -> dict[str, Any]:
        """Return parameters, spread between devices, held-out errors and notes.

        Returns
        -------
        dict
            ``devices``: for each device its parameters, each with ``value`` and the ends of its 95 % interval ``low``
            and ``high``; ``fleet``: median and sd of the logarithm between devices, and within a device; ``holdout``:
            ``median_error`` (relative), ``coverage_50`` and ``coverage_95`` of held-out rounds; ``availability``;
            ``notes``.
        """
        names = self.log.names
        devices = {name: found for unit, name in enumerate(names) if (found := self.laws.parameters(self.log, unit))}
        fleet = {}
        for law, key in (("upload", "upload_bits_per_s"), ("download", "download_bits_per_s")):
            if (fits := self.laws.get(law)) is not None and "bits" in self.log.columns:
                median, between = fits.between
                within = float(np.sqrt(np.mean(np.square(fits.sd[fits.rows > 0]))))
                fleet[key] = {"median": 1 / median, "sd_between": None if np.isnan(between) else between,
                              "sd_within": None if np.isnan(within) else within}
        return {"devices": devices, "holdout": self.holdout.as_json(), "fleet": fleet,
                "availability": self.availability, "flops_per_sample": self.log.flops, "notes": self.notes}

    def figure(self) -> Figure:
        """Return the figure of predicted against measured rounds.

        Returns
        -------
        matplotlib.figure.Figure
            Round lengths and, if the log has them, energies.
        """
        return draw(self.holdout)

    def save(self, path: Path | str) -> list[Path]:
        """Write the scenario, its uncertainty, the figure and the page.

        Parameters
        ----------
        path : str or Path
            Scenario file to write, such as ``fleet.toml``. Beside it: ``fleet.calibration.json`` (the uncertainty that
            `netsim predict` draws from), ``fleet.png`` and ``fleet.html``.

        Returns
        -------
        list of Path
            The files written.
        """
        file = Path(path)
        if file.suffix != ".toml":
            raise InputError("malformed", str(file), expected="a name that ends in .toml")
        written = write_fleet(self.fleet, file)
        picture, page = file.with_suffix(".png"), file.with_suffix(".html")
        save_figure(self.figure(), picture)
        replace_text(page, page_of(self))
        return [*written, picture, page]


def calibrate(
    log: Path | str, base: Scenario | Mapping[str, Any] | Path | str | None = None, *, holdout: float | None = None,
    seed: int = 0,
) -> Calibration:
    """Fit compute times, link rates, power and availability of a fleet to a log.

    Parameters
    ----------
    log : str or Path
        CSV file with the columns device, samples, batch and compute_s (s), and any of round, batches, model, flops (per
        sample), bits, upload_s, download_bits, download_s (s), energy_j (J), t (s). Rows without a round are
        measurements on their own; a row without durations is a job that failed.
    base : Scenario, str, Path or mapping, optional
        Scenario whose learning, selection, server and end are used.
    holdout : float, optional
        Predict this share of the rounds, the last ones, from the earlier ones. By default each fifth of the rounds is
        predicted from the others.
    seed : int
        Seed of the draws of held-out predictions.

    Returns
    -------
    Calibration
        Parameters with 95 % intervals, held-out errors and the scenario.

    Raises
    ------
    InputError
        The log cannot be read, lacks a column, or has values that are not positive numbers.

    Examples
    --------
    >>> from netsim import calibrate
    >>> calibrate("log.csv").as_json()["holdout"]                              # doctest: +SKIP
    {'median_error': 0.051, 'coverage_50': 0.52, 'coverage_95': 0.95, ...}
    """
    if holdout is not None and not 0 < holdout < 1:
        raise InputError("out-of-range", "holdout", holdout, "a share between 0 and 1")
    if base is not None and not isinstance(base, Scenario):
        base = Scenario.of(base) if isinstance(base, Mapping) else load_scenario(str(base))
    return Calibration(read_log(log), base, holdout, seed)

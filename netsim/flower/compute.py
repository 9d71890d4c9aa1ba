"""CPU cycles of an app's messages: from the scenario's cycles per sample, or from the app itself.

Devices with ``cycles_per_sample = "auto"`` compute what the app computes. The first message of each type is run again
in a worker: its floating-point operations are counted if it uses torch, and its CPU seconds on this machine are
measured. A device then needs, per sample,

    cycles = FLOP / flops_per_cycle + (CPU seconds - FLOP / speed of this machine) * clock of this machine

``flops_per_cycle`` is that of the device; work that is no floating-point operation (data loading, Python) takes as many
cycles on the device as here. What was measured is stored in the run directory and used again on resume.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from netsim.base.errors import InputError
from netsim.base.files import replace_file
from netsim.base.units import format
from netsim.devices.population import Population
from netsim.flower.messages import TRAIN, SentMessage, samples_of
from netsim.flower.scenario_subset import cycles_of
from netsim.scenario import Scenario

FILE = "compute.json"
USUAL_HZ = 2.5e9           # clock of this machine if the system does not tell it


@dataclass(frozen=True)
class Measured:
    """Cost of one message of an app on this machine."""

    samples: int           # that the reply reports; 1 if it reports none
    flop: float            # counted by torch; 0 without torch
    cpu_s: float           # of the worker and its children
    flops_per_s: float     # speed of one core of this machine; 0 without torch
    clock_hz: float        # of this machine

    @property
    def other_cycles(self) -> float:
        """Cycles of work that is no floating-point operation."""
        flop_s = self.flop / self.flops_per_s if self.flops_per_s else 0.0
        return max(0.0, self.cpu_s - flop_s) * self.clock_hz


class Compute:
    """Cycles of messages; ``measure`` runs a message again on this machine."""

    def __init__(self, scenario: Scenario, population: Population, folder: Path,
                 measure: Callable[[SentMessage], Measured] | None) -> None:
        self._scenario, self._population, self._measure = scenario, population, measure
        self._file = folder / FILE
        self._by_app = np.zeros(len(population), bool)
        if measure is not None and scenario.learning.flops_per_sample is None:
            self._by_app = np.repeat([table.counts_flops for table in scenario.population],
                                     [table.size for table in scenario.population])
        rule = scenario.flower.compute if scenario.flower else "measured"
        self._only_flops = rule == "flops"
        self.known: dict[str, Measured] = _read(self._file) if self._by_app.any() else {}

    def cycles(self, sent: SentMessage) -> float:
        """Return the CPU cycles of an answered message on its device."""
        device, samples = sent.device, samples_of(sent.answered.reply)
        if self._by_app[device]:
            return self._of_app(sent, samples or 1)
        if sent.kind != TRAIN:                  # one pass, without training
            return float(samples or 1) * float(self._population.cycles_per_sample[device])
        if samples is None:
            samples = int(self._population.samples[device])
            if any(table.samples == "auto" for table in self._scenario.population):
                raise InputError("missing", f"num-examples in the ClientApp's reply on device {device}",
                                 hint='Report it, or replace samples = "auto" in the scenario')
        return float(cycles_of(self._scenario, self._population, np.array([device]), np.array([samples]))[0])

    def _of_app(self, sent: SentMessage, samples: int) -> float:
        name = f"{sent.message.metadata.message_type}{sent.stage}"
        if name not in self.known:
            assert self._measure is not None
            self.known[name] = self._measure(sent)
            text = json.dumps({key: asdict(value) for key, value in self.known.items()}, indent=1)
            replace_file(self._file, lambda file: file.write(text.encode()))
        return self._per_sample(self.known[name], sent.device) * samples

    def _per_sample(self, found: Measured, device: int) -> float:
        """Return the cycles per sample of a device, at least 1."""
        cycles = found.flop * float(self._population.cycles_per_sample[device])      # per FLOP: 1 / flops_per_cycle
        if self._only_flops:
            if not cycles:
                raise InputError("conflict", "flower.compute", '"flops"', '"measured"',
                                 "The app computes nothing that torch counts")
        else:
            cycles += found.other_cycles
        return max(1.0, cycles / found.samples)

    def describe(self) -> str:
        """Return a sentence: the rule, cycles per sample, and the assumed device."""
        if not self._by_app.any():
            cycles = float(np.median(self._population.cycles_per_sample))
            return f"{cycles:.3g} cycles per sample, as the scenario says"
        train = [found for name, found in self.known.items() if name.startswith(TRAIN)] or list(self.known.values())
        if not train:
            return "nothing that costs time"
        found = max(train, key=lambda each: each.cpu_s)
        cycles = float(np.median([self._per_sample(found, device) for device in np.flatnonzero(self._by_app).tolist()]))
        hz = float(np.median(self._population.cpu_max_hz))
        kinds = " and ".join(table.name for table in self._scenario.population)
        parts = [f"{format_flop(found.flop / found.samples)} per sample counted by torch"] if found.flop else []
        if not self._only_flops:
            parts.append(f"{format(found.cpu_s / found.samples, 'time')} of CPU per sample measured here")
        return (f"{' and '.join(parts)}: {cycles:.3g} cycles per sample, "
                f"{format(cycles / hz, 'time')} at {format(hz, 'frequency')}, on the median device of {kinds}")


def format_flop(flop: float) -> str:
    """Return a number of floating-point operations with its unit.

    >>> format_flop(5_511_552.0)
    '5.51 MFLOP'
    """
    power = min(4, max(0, int(math.log10(flop) // 3))) if flop >= 1 else 0
    return f"{flop / 1000**power:.3g} {['', 'k', 'M', 'G', 'T'][power]}FLOP"


def _read(file: Path) -> dict[str, Measured]:
    """Return what an interrupted run has measured."""
    if not file.is_file():
        return {}
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        found = {str(name): Measured(samples=int(values.pop("samples")), **{
            key: float(value) for key, value in values.items()}) for name, values in content.items()}
        if all(each.samples > 0 and all(0.0 <= value < math.inf for value in asdict(each).values())
               for each in found.values()):
            return found
        raise ValueError("numbers out of range")
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise InputError("damaged", str(file), str(error), hint="Start a new run in another --out") from None


def clock_hz() -> float:
    """Return the clock of this machine's CPU in Hz."""
    with suppress(OSError, ValueError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        return 1e6 * max(float(mhz) for mhz in re.findall(r"cpu MHz\s*:\s*([\d.]+)", text))
    return USUAL_HZ


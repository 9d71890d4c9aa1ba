"""Values with units: ``"20 MHz"`` to an SI float and back, from one fixed table.

A table of our own, since general unit packages refuse dBm or read "Mbit" as something else. Linear units go
through decimal arithmetic, so that ``"30 mJ"`` and ``"0.03 J"`` are the very same float.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from types import MappingProxyType

from netsim.base.errors import InputError, alternatives, did_you_mean, nearest, quoted


def linear(decibels: float) -> float:
    return float(10.0 ** (decibels / 10.0))


def db(ratio: float) -> float:
    return 10.0 * math.log10(ratio) if ratio > 0 else -math.inf


def watts_from_dbm(dbm: float) -> float:
    return linear(dbm) / 1e3


def dbm_from_watts(watts: float) -> float:
    return db(watts * 1e3)


Scale = str | Callable[[float], float]      # a factor as decimal text, or a function for logarithmic units


def _table(text: str) -> Mapping[str, Scale]:
    return {unit: factor for factor, _, unit in (entry.partition("=") for entry in text.split())}


DIMENSIONS: Mapping[str, Mapping[str, Scale]] = MappingProxyType({
    "length": _table("1=m 1e3=km 1e-2=cm"),
    "frequency": _table("1=Hz 1e3=kHz 1e6=MHz 1e9=GHz"),
    "energy": _table("1=J 1e-9=nJ 1e-6=uJ 1e-6=µJ 1e-3=mJ 1e3=kJ 1e6=MJ 3600=Wh 3.6=mWh 3.6e6=kWh"),
    "power": {**_table("1=W 1e-6=uW 1e-6=µW 1e-3=mW 1e3=kW"),
              "dBm": watts_from_dbm, "dBW": linear},
    "noise density": {"W/Hz": "1", "dBm/Hz": watts_from_dbm},
    "gain": {"dB": linear},                 # a ratio, kept linear
    "decibels": {"dB": "1"},                # a ratio, kept in dB: shadowing, path loss
    "speed": {"m/s": "1", "km/h": "0.2777777777777778"},
    "spectral efficiency": {"bit/s/Hz": "1"},
    "time": _table("1=s 1e-9=ns 1e-6=us 1e-6=µs 1e-3=ms 60=min 3600=h"),
    "voltage": _table("1=V 1e-3=mV"),
    "data rate": _table("1=bit/s 1e3=kbit/s 1e6=Mbit/s 1e9=Gbit/s 8=B/s 8e3=kB/s 8e6=MB/s"),
    "data size": _table("1=bit 1e3=kbit 1e6=Mbit 1e9=Gbit 8=B 8e3=kB 8e3=KB 8e6=MB 8e9=GB 8192=KiB 8388608=MiB"),
})

NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?"
_QUANTITY = re.compile(rf"({NUMBER})\s*(.*)", re.DOTALL)
_CHARGE = re.compile(rf"({NUMBER})\s*(mAh|Ah)\s+at\s+({NUMBER})\s*V")     # energy of a battery
_ALIKE = str.maketrans({"−": "-", "μ": "µ"})     # minus sign and Greek mu, as copied from papers


def pattern(dimension: str) -> str:
    """Return a regular expression for the spellings that ``parse`` accepts, for the JSON Schema."""
    units = "|".join(sorted(DIMENSIONS[dimension], key=lambda unit: (-len(unit), unit)))
    plain = rf"{NUMBER}\s*({units})"
    return rf"^\s*({plain}|{_CHARGE.pattern})\s*$" if dimension == "energy" else rf"^\s*{plain}\s*$"


def parse(value: object, dimension: str) -> float:
    """Return the SI value of a text such as ``"20 MHz"``; the space is optional.

    >>> parse("30mJ", "energy")
    0.03
    >>> parse("448 kbit", "data size")
    448000.0
    >>> parse("2000 mAh at 3.5 V", "energy")
    25200.0
    """
    if isinstance(value, str):
        return _parse(value, dimension)
    raise InputError("wrong-unit", "", _found(value), f"text with a unit of {dimension}, such as {example(dimension)}")


@lru_cache(maxsize=4096)      # fleets repeat the same few spellings
def _parse(text: str, dimension: str) -> float:
    units = DIMENSIONS[dimension]
    charge = _CHARGE.fullmatch(text.translate(_ALIKE).strip()) if dimension == "energy" else None
    if charge is not None:
        hours = Decimal(charge[1]) * (Decimal("3.6") if charge[2] == "mAh" else 3600)
        return float(hours * Decimal(charge[3]))
    match = _QUANTITY.fullmatch(text.translate(_ALIKE).strip())
    if match is None:
        raise InputError("malformed", "", quoted(text), f"a number and a unit of {dimension}: {example(dimension)}")
    number, unit = match.groups()
    if unit not in units:
        known, near = sorted(units), nearest(unit, sorted(units))
        hint = 'Give the voltage too, such as "2800 mAh at 3.7 V"' if unit in ("mAh", "Ah") else did_you_mean(near)
        raise InputError("wrong-unit", "", quoted(text), f"{dimension} in {alternatives(known)}", hint)
    scale = units[unit]
    try:
        si = float(Decimal(number) * Decimal(scale)) if isinstance(scale, str) else scale(float(number))
    except OverflowError:
        si = math.inf
    if not math.isfinite(si):
        raise InputError("out-of-range", "", quoted(text), f"a finite {dimension}")
    return si


def example(dimension: str) -> str:
    """Return a quoted example of a dimension, for messages."""
    return f'"{_EXAMPLES[dimension]}"'


def _found(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"the bare number {value!r}"
    return "a table" if isinstance(value, Mapping) else f"a {type(value).__name__}"


_EXAMPLES = {
    "length": "300 m", "frequency": "20 MHz", "energy": "30 mJ", "power": "23 dBm", "noise density": "-174 dBm/Hz",
    "gain": "-95 dB", "decibels": "8 dB", "time": "150 ms", "data size": "448 kbit",
    "speed": "1.4 m/s", "data rate": "5 Mbit/s", "voltage": "0.8 V", "spectral efficiency": "7.4 bit/s/Hz",
}

# The units that people read, largest first; logarithmic ones are spelled by a function.
_SHOWN = {
    "length": "km m", "frequency": "GHz MHz kHz Hz", "energy": "MJ kJ J mJ µJ nJ", "power": "kW W mW µW",
    "time": "s ms µs ns", "data size": "Gbit Mbit kbit bit", "decibels": "dB", "speed": "m/s",
    "spectral efficiency": "bit/s/Hz", "data rate": "Gbit/s Mbit/s kbit/s bit/s",
    "voltage": "V mV",
}
_LADDERS = {dimension: [(float(str(DIMENSIONS[dimension][unit])), unit) for unit in units.split()]
            for dimension, units in _SHOWN.items()}
_LEVELS: Mapping[str, tuple[Callable[[float], float], str]] = {
    "gain": (db, "dB"),
    "noise density": (dbm_from_watts, "dBm/Hz"),
}

SHORT_S = 120        # durations below it are written in seconds
_CLOCK = ((86_400, 24, "d", "h"), (3_600, 60, "h", "min"), (60, 60, "min", "s"))      # s, parts, unit, unit of a part
MOST_PLACES = 9      # before the point, or behind it


def format(value: float, dimension: str, digits: int = 4, *, up: bool = False) -> str:
    """Format an SI value with a suitable unit; ``up`` rounds up."""
    if dimension in _LEVELS:
        level, unit = _LEVELS[dimension]
        return f"{_short(level(value), digits)} {unit}"
    ladder = _LADDERS[dimension]
    if not math.isfinite(value) or value == 0:
        base = next(unit for size, unit in ladder if size == 1.0)
        return f"{value:g} {base}"
    rounded = float(f"{value:.{digits}g}")       # first, so that 999.99 ms reads 1 s
    size, unit = next((step for step in ladder if abs(rounded) >= step[0]), ladder[-1])
    shown = f"{_short(value / size, digits)} {unit}"
    if up and parse(shown, dimension) < value:
        return f"{short_up(Decimal(value) / Decimal(str(size)), digits)} {unit}"
    return shown


def computing(seconds: float) -> str:
    """Format a computing time in whole seconds, minutes or hours."""
    return duration(round(seconds), short_s=60)


def duration(seconds: float, digits: int = 4, short_s: float = SHORT_S) -> str:
    """Format a time in the units that people use: as :func:`format` below two minutes, then "9 h 4 min"."""
    whole = round(abs(seconds)) if math.isfinite(seconds) else 0
    if whole < short_s:
        return format(seconds, "time", digits)
    larger, smaller = next(((size, size // by), (unit, part)) for size, by, unit, part in _CLOCK if whole >= size)
    whole = round(whole / larger[1]) * larger[1]
    first, rest = divmod(whole, larger[0])
    return f"{'-' if seconds < 0 else ''}{first} {smaller[0]}" + (f" {rest // larger[1]} {smaller[1]}" if rest else "")


def short_up(number: float | Decimal, digits: int = 4) -> str:
    """Format a positive number, rounded up to ``digits`` significant digits."""
    near = Decimal(number)
    step = Decimal(1).scaleb(near.adjusted() - digits + 1)
    return _spelled((near / step).to_integral_value(ROUND_CEILING) * step)


def _short(number: float, digits: int) -> str:
    """Format a number to ``digits`` significant digits, and at least to the decimal point."""
    if not math.isfinite(number) or number == 0:
        return f"{number:g}"
    rounded = Decimal(f"{number:.{digits}g}")
    place = rounded.adjusted()
    return _spelled(rounded if place > MOST_PLACES else Decimal(f"{number:.{max(0, digits - 1 - place)}f}"))


def _spelled(number: Decimal) -> str:
    """Format without trailing zeros, with an exponent only beyond MOST_PLACES places."""
    number = number.normalize()
    return f"{number:f}" if abs(number.adjusted()) <= MOST_PLACES else f"{number:e}".replace("e+", "e")

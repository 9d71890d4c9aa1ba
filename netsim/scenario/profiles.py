"""Device profiles: measured values of a kind of device, which fill in the keys of a ``[[population]]`` table.

A table of profiles is a CSV file with one value a row: profile, key, value, low, high, source, licence, note. netsim
ships one; ``profiles`` names a file of your own, or ``"package:file.csv"`` in an installed package, which is read, not
imported.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from netsim.base.errors import InputError, quoted, require_known, unknown
from netsim.scenario.aliases import canonical_key
from netsim.scenario.csv_tables import as_number, read_sheet
from netsim.scenario.devices import PopulationTable

NOT_MEASURED = {"name", "count", "places", "devices", "profile", "profiles"}
IN_PACKAGE = re.compile(r"([A-Za-z_]\w*):([\w.-]+\.csv)")


@dataclass(frozen=True)
class ProfileValue:
    """One value of a profile, as text with its unit; ``low`` and ``high`` are its uncertainty."""

    key: str
    value: str
    low: str
    high: str
    source: str
    licence: str
    note: str


COLUMNS = ("profile", *(field.name for field in fields(ProfileValue)))
Profiles = Mapping[str, tuple[ProfileValue, ...]]


def shipped() -> Path:
    return Path(str(files("netsim.scenario"))) / "profiles.csv"


def load_profiles(path: str | Path | None = None) -> Profiles:
    """Read the values of each profile of a CSV file, or of ``"package:file.csv"``; by default of netsim's own table.

    >>> {value.key: value.value for value in load_profiles()["nexus-s"]}["cpu.flops_per_cycle"]
    '0.42'
    """
    match = IN_PACKAGE.fullmatch(str(path))
    if match is None:
        return _read(str(shipped() if path is None else Path(path)))
    spec = find_spec(match[1])      # nothing of the package is imported
    folder = next(iter(spec.submodule_search_locations or ()), None) if spec else None
    if folder is None:
        raise InputError("import-failed", "profiles", quoted(str(path)), f"an installed package {match[1]}")
    return _read(str(Path(folder) / match[2]))


@lru_cache(maxsize=16)
def _read(path: str) -> Profiles:
    sheet = read_sheet(path)
    header = sheet.rows[0]
    require_known("column", header, COLUMNS, "unknown-key", source=sheet.at(0), secret=True)
    missing = [name for name in COLUMNS[:3] if name not in header]
    if missing or len(set(header)) < len(header):
        raise InputError("missing" if missing else "duplicate", f'column "{(missing or header)[0]}"',
                         source=sheet.at(0))
    found: dict[str, list[ProfileValue]] = {}
    for place, row in enumerate(sheet.rows[1:], 1):
        cells = {**dict.fromkeys(COLUMNS, ""), **dict(zip(header, row, strict=True))}
        cells["key"] = canonical_key(f"population..{cells['key']}").removeprefix("population..")
        table = cells["key"].partition(".")[0]
        if table not in PopulationTable.model_fields or table in NOT_MEASURED:
            raise unknown("key", cells["key"], set(PopulationTable.model_fields) - NOT_MEASURED, "unknown-key",
                          source=sheet.at(place), secret=True)
        values = found.setdefault(cells.pop("profile"), [])
        if not cells["value"] or any(value.key == cells["key"] for value in values):
            raise InputError("duplicate" if cells["value"] else "empty", f'key "{cells["key"]}"',
                             source=sheet.at(place))
        values.append(ProfileValue(**cells))
    return {name: tuple(values) for name, values in found.items()}


def with_profiles(table: Any) -> Any:
    """Replace the profiles of the populations of a scenario by the keys that they stand for."""
    listed = table.get("population") if isinstance(table, dict) else None
    if not isinstance(listed, list):
        return table
    return {**table, "population": [
        one for each in listed
        for one in (_filled(each) if isinstance(each, dict) and {"profile", "profiles"} & set(each) else [each])]}


def _filled(population: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the population, or one for each profile of a mix, with the values of its profile below its own keys."""
    own = {name: value for name, value in population.items() if name not in ("profile", "profiles")}
    where, called = f"population.{population.get('name', 'device')}", population.get("profile")
    file = population.get("profiles")
    if called is None or not isinstance(file, str | None):
        raise InputError("needs", f"{where}.profiles", expected="a CSV file, and profile: the name of one in it")
    known = load_profiles(file)
    shares = {called: 1.0} if isinstance(called, str) else called
    if not isinstance(shares, dict) or not shares:
        raise InputError("wrong-type", f"{where}.profile", quoted(called), 'a name, or shares such as '
                         '{ pixel-4 = 0.3, nexus-s = 0.7 }')
    require_known(f"{where}.profile", shares, known, hint="`netsim devices` lists them")
    if isinstance(called, str):
        yield _over(own, known[called])
        return
    counts = _counts(shares, own.get("count"), f"{where}.profile")
    for name, count in counts.items():
        yield _over({**own, "name": f"{own.get('name', 'device')}-{name}", "count": count}, known[name])


def _counts(shares: Mapping[str, Any], count: Any, key: str) -> dict[str, int]:
    """Return how many devices of a count have each profile, by largest remainders; none with no device."""
    good = all(isinstance(share, int | float) and not isinstance(share, bool) and 0 <= share < math.inf
               for share in shares.values())
    if not good or not sum(shares.values()) > 0:
        raise InputError("out-of-range", key, quoted(str(dict(shares))), "shares of at least 0, one of them above 0")
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InputError("needs", key, expected="count, the number of devices of all profiles together")
    exact = {name: count * share / sum(shares.values()) for name, share in shares.items()}
    whole = {name: math.floor(value) for name, value in exact.items()}
    rest = sorted(exact, key=lambda name: whole[name] - exact[name])[:count - sum(whole.values())]
    return {name: whole[name] + (name in rest) for name in exact if whole[name] + (name in rest)}


def _over(own: dict[str, Any], profile: tuple[ProfileValue, ...]) -> dict[str, Any]:
    """Return the keys of a population over those of a profile, whose clock is fixed unless cpu.min is known."""
    table: dict[str, Any] = {}
    for value in profile:
        above, _, last = value.key.rpartition(".")
        (table.setdefault(above, {}) if above else table)[last] = as_number(value.value)
    cpu = table.get("cpu", {})
    if "max" in cpu:
        cpu.setdefault("min", cpu["max"])
    columns = own["devices"] if isinstance(own.get("devices"), dict) else {}
    given = own["cpu"] if isinstance(own.get("cpu"), dict) else {}
    if "flops_per_cycle" in cpu or "flops_per_cycle" in given:
        cpu.setdefault("cycles_per_sample", "auto")
    if given.get("cycles_per_sample", "auto") != "auto" or "cycles_per_sample" in columns:
        cpu.pop("flops_per_cycle", None)
    if "max" in given and "min" not in given and cpu.get("min") == cpu.get("max"):
        cpu["min"] = given["max"]
    return {**table, **own, **{name: {**table[name], **own[name]} for name in table
                               if isinstance(table[name], dict) and isinstance(own.get(name), dict)}}

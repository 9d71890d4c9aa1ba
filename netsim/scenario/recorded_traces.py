"""Recorded traces of other simulators, and references to recorded files by path and content hash.

A key that may name a CSV file takes a table too: ``{ file = "...", format = "...", seed = 0, sha256 = "..." }``.

========================= ============ ==============================================================================
key                       format       content
========================= ============ ==============================================================================
``devices``               ``fedscale`` pickle, client to {computation: ms per sample, communication: kbit/s}
``availability.intervals`` ``fedscale`` pickle, client to {active: [s], inactive: [s], finish_time: s, ...}
``availability.intervals`` ``flash``    JSON, client to {messages: "2020-01-29 00:23:10\\tscreen_lock\\n..."}
========================= ============ ==============================================================================
"""

from __future__ import annotations

import hashlib
import io
import math
import pickle
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from netsim.base.errors import InputError, quoted, require_known
from netsim.base.files import MEGABYTE, read_bytes, read_json, reading
from netsim.base.rng import stream
from netsim.scenario.tables import Place, at, size_of, steps_of, with_files

MOST_BYTES = 500 * MEGABYTE
MOST_EDGES = 100_000         # instants of one device
TRAINING = 3.0               # FedScale: a sample's training takes three times its inference
NOMINAL_HZ = 1e9             # clock of devices of which only times are known
OPTIONS = ("file", "format", "seed", "sample", "sha256")
LARGE = 10_000               # numbers: more are referenced in a written scenario, not pasted
ALLOWED = ("PROTO FRAME STOP MARK POP NONE NEWTRUE NEWFALSE EMPTY_DICT EMPTY_LIST DICT LIST APPEND APPENDS SETITEM "
           "SETITEMS INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT UNICODE BINUNICODE SHORT_BINUNICODE "
           "BINUNICODE8 STRING BINSTRING SHORT_BINSTRING PUT BINPUT LONG_BINPUT GET BINGET LONG_BINGET MEMOIZE")
NAMED = {getattr(pickle, name) for name in ALLOWED.split()}


class PlainUnpickler(pickle._Unpickler):
    """Reads dicts, lists, numbers and text of a pickle; every other instruction is refused before it does anything.

    Python's own unpickler, not that of C: its memo is a dict, so that an index cannot fill the memory.
    """

    dispatch: ClassVar[dict[int, Any]] = {
        number: load for number, load in pickle._Unpickler.dispatch.items()
        if bytes([number]) in NAMED}

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError("a class")


def read_pickle(path: Path) -> Any:
    """Return the content of a pickle of dicts, lists, numbers and text; nothing in it is executed."""
    content = read_bytes(path, "a trace", MOST_BYTES)
    try:
        return PlainUnpickler(io.BytesIO(content), encoding="latin-1").load()
    except KeyError:
        raise InputError("malformed", str(path), "instructions to create objects", "a pickle of dicts, lists, numbers "
                         "and text only", "Nothing was executed") from None
    except Exception as problem:        # a damaged pickle may raise anything
        raise InputError("malformed", str(path), f"{type(problem).__name__}", "a pickle of dicts, lists, numbers and "
                         "text only") from None


def _clients(content: Any, path: Path) -> dict[str, dict[Any, Any]]:
    """Return the entries of a trace by client."""
    if not isinstance(content, dict) or not content or not all(isinstance(each, dict) for each in content.values()):
        raise InputError("malformed", str(path), type(content).__name__, "clients, each with a table of values")
    return {str(name)[:100]: each for name, each in content.items()}


def _number(value: Any, what: str, path: Path, least: float = 0.0) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < 1e15:
        raise InputError("malformed", str(path), f"{what} = {quoted(str(value)[:40])}",
                         f"a number of at least {least:g}")
    return float(value)


def sampled(clients: Mapping[str, Any], count: int, seed: int) -> list[str]:
    """Return ``count`` clients drawn by seed: without repetition as long as there are enough."""
    rng, names = stream(seed, "traces"), list(clients)
    turns, rest = divmod(count, len(names))
    chosen = [names[place] for _ in range(turns) for place in rng.permutation(len(names))]
    return chosen + [names[place] for place in rng.permutation(len(names))[:rest]]


def fedscale_capacity(path: Path, count: int, seed: int) -> dict[str, list[Any]]:
    """Return columns of devices from FedScale's capacities.

    A sample trains for three times its inference latency, as FedScale has it, on a CPU of nominally 1 GHz; uploads and
    downloads have the measured rate.
    """
    clients = _clients(read_pickle(path), path)
    chosen = sampled(clients, count, seed)
    latency_s = [_number(clients[name].get("computation"), "computation", path, 1e-9) / 1e3 for name in chosen]
    rate = [_number(clients[name].get("communication"), "communication", path, 1e-9) * 1e3 for name in chosen]
    clock, rates = [f"{NOMINAL_HZ:g} Hz"] * count, [f"{each!r} bit/s" for each in rate]
    return {"kind": ["fedscale"] * count, "cpu_min": clock, "cpu_max": clock, "rate": rates, "downlink_rate": rates,
            "cycles_per_sample": [TRAINING * each * NOMINAL_HZ for each in latency_s]}


def fedscale_behaviour(path: Path, count: int, seed: int) -> list[dict[str, Any]]:
    """Return the intervals in which devices are available, from FedScale's behaviour; each repeats by itself."""
    clients = _clients(read_pickle(path), path)

    def entry(client: dict[Any, Any]) -> dict[str, Any]:
        period = _number(client.get("finish_time"), "finish_time", path, 1e-3)
        starts, ends = client.get("active"), client.get("inactive")
        if not isinstance(starts, list) or not isinstance(ends, list) or len(starts) != len(ends):
            raise InputError("malformed", str(path), "active and inactive", "lists of equal length")
        pairs = [(_number(on, "active", path), min(_number(off, "inactive", path), period))
                 for on, off in zip(_few(starts, path), _few(ends, path), strict=True)]
        return {**merged(pairs), "period": period}

    return [entry(clients[name]) for name in sampled(clients, count, seed)]


def flash_states(path: Path, count: int, seed: int) -> list[dict[str, Any]]:
    """Return the intervals in which devices are locked, charged and on Wi-Fi, from FLASH's states.

    Times count from the midnight before the first message of the file.
    """
    clients = _clients(read_json(path, "a trace", MOST_BYTES), path)
    chosen = sampled(clients, count, seed)
    ready = {name: _ready(clients[name].get("messages"), path) for name in dict.fromkeys(chosen)}
    first = min((pairs[0][0] for pairs in ready.values() if pairs), default=0.0)
    midnight = first - first % 86_400.0
    return [merged([(on - midnight, off - midnight) for on, off in ready[name]]) for name in chosen]


STATES: Mapping[str, tuple[str, bool]] = {
    "battery_charged_on": ("charged", True), "battery_charged_off": ("charged", False), "wifi": ("wifi", True),
    "screen_lock": ("locked", True), "screen_unlock": ("locked", False),
    **dict.fromkeys(("unknown", "2g", "3g", "4g", "5g"), ("wifi", False))}


def _ready(messages: Any, path: Path) -> list[tuple[float, float]]:
    """Return the intervals, in seconds since 1970, in which all three conditions hold."""
    if not isinstance(messages, str):
        raise InputError("malformed", str(path), "messages", "text with a time, a tab and a state in each line")
    now, began = {"charged": False, "wifi": False, "locked": False}, math.nan
    found: list[tuple[float, float]] = []
    for line in _few(messages.split("\n"), path):
        stamp, _, state = line.strip().partition("\t")
        name, value = STATES.get(state.strip().lower(), ("", False))
        if not name:
            continue                     # other states, such as screen_on or 57%, change none of the conditions
        try:
            at = (datetime.strptime(stamp.strip(), "%Y-%m-%d %H:%M:%S") - datetime(1970, 1, 1)).total_seconds()
        except ValueError:
            raise InputError("malformed", str(path), quoted(stamp[:40]), "a time such as 2020-01-29 00:23:10") from None
        was, now[name] = all(now.values()), value
        if all(now.values()) and not was:
            began = at
        elif was and not all(now.values()):
            found.append((began, at))
    return found


def _few(values: list[Any], path: Path) -> list[Any]:
    if len(values) > MOST_EDGES:
        raise InputError("too-large", str(path), f"{len(values):,} instants of a device", f"at most {MOST_EDGES:,}")
    return values


def merged(pairs: Iterable[tuple[float, float]]) -> dict[str, Any]:
    """Return intervals in order, without empty ones, and those that touch as one."""
    on: list[float] = []
    off: list[float] = []
    for start, end in sorted(pair for pair in pairs if pair[0] < pair[1]):
        if off and start <= off[-1]:
            off[-1] = max(off[-1], end)
        else:
            on.append(start)
            off.append(end)
    return {"on": on, "off": off}


FORMATS: Mapping[tuple[str, ...], Mapping[str, Callable[[Path, int, int], Any]]] = {
    ("devices",): {"fedscale": fedscale_capacity},
    ("availability", "intervals"): {"fedscale": fedscale_behaviour, "flash": flash_states}}


def read_reference(given: dict[str, Any], key: tuple[str, ...], count: int | None) -> Any:
    """Return what a table with a ``file`` stands for: the path of a CSV file, or the content of a trace."""
    path, kind, where = given["file"], given.get("format", "csv"), ".".join(key)
    for name, text, needs in (("file", path, "the path of a file"), ("format", kind, "the name of a format")):
        if not isinstance(text, str):
            raise InputError("wrong-type", f"{where}.{name}", quoted(text), needs)
    if (expected := given.get("sha256")) is not None and (found := content_hash(path)) != expected:
        raise InputError("conflict", f"{where}.sha256", found or "no file", str(expected)[:64],
                         f"{path} is not the file that the scenario was made with")
    if kind == "csv":
        rest = {name: value for name, value in given.items() if name not in ("sha256", "format")}
        return rest if len(rest) > 1 else path
    readers = FORMATS.get(key, {})
    require_known(f"{where}.format", (kind,), {"csv", *readers})
    require_known(where, given, OPTIONS, "unknown-key")
    seed, size = given.get("seed", 0), given.get("sample", count)
    for name, value, least in (("seed", seed, 0), ("sample", size, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 10_000_000:
            raise InputError("needs" if value is None else "out-of-range", f"{where}.{name}", value,
                             "the number of devices" if name == "sample" else f"a whole number from {least} on")
    with reading(path):
        return readers[kind](Path(path), int(size or 0), seed)


def content_hash(path: str) -> str | None:
    """Return the SHA-256 of a file; None if it cannot be read."""
    with suppress(OSError, InputError):
        return hashlib.sha256(read_bytes(Path(path), "part of a scenario", MOST_BYTES)).hexdigest()
    return None


class Files(dict[Place, Any]):
    """Recorded files by key. All are alike: a scenario is what it holds, wherever that was read from."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Files)

    __hash__ = None


def resolved(table: dict[str, Any], keys: Iterable[tuple[str, ...]]) -> tuple[dict[str, Any], Files]:
    """Return a scenario's tables with the content of traces, and what they say of files, by key.

    ``keys`` are those that may name a file: ``("population", "devices")`` and so on.
    """
    found = Files()

    def read(value: Any, place: Place) -> Any:
        if isinstance(value, str):
            if place[-1] != "rate" or value.lower().endswith(".csv"):
                found[place] = {"file": value}
            return value
        population = at(table, place[:2])
        count = size_of(population) or None if place[0] == "population" and isinstance(population, dict) else None
        found[place] = value if count is None or "format" not in value else {"sample": count, **value}
        return read_reference(value, tuple(step for step in steps_of(place) if step != "population"), count)

    for key in keys:
        table = with_files(table, key, read)
    return table, found


def referenced(table: dict[str, Any], found: Mapping[Place, Any]) -> dict[str, Any]:
    """Return a written scenario in which large recordings are named by path and content hash."""
    for place, given in found.items():
        above = at(table, place[:-1])
        if isinstance(above, dict) and numbers_in(above.get(place[-1], ())) > LARGE and "rename" not in given:
            above[place[-1]] = {**given, "sha256": content_hash(given["file"])}
    return table


def numbers_in(value: Any) -> int:
    """Return how many values a table holds."""
    if isinstance(value, dict):
        return sum(map(numbers_in, value.values()))
    return sum(map(numbers_in, value)) if isinstance(value, list | tuple) else 1

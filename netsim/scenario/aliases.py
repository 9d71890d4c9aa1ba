"""Renamed scenario keys and values: the old spellings stay valid, and digests are computed with them.

``ALIASES`` is the only list. Layers of a scenario are translated to the new spellings before they are merged
(:func:`canonical`); the digest translates back (:func:`as_stored`), so that stored results are found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from netsim.base.errors import InputError
from netsim.scenario.tables import at

Key = tuple[str, ...]
Table = dict[str, Any]


@dataclass(frozen=True)
class Alias:
    """A renamed key; a step ``population`` leads to every population.

    ``only`` is a key and its values with which the alias applies: tables with other values belong to user code.
    """

    old: Key
    new: Key
    values: Mapping[str, str] = field(default_factory=dict)      # old value -> new value
    only: tuple[Key, tuple[str | None, ...]] | None = None

    def applies(self, *tables: Mapping[str, Any]) -> bool:
        """Return True if the alias holds in tables, of which the first with the key of ``only`` decides."""
        if self.only is None:
            return True
        key, allowed = self.only
        return next((value for table in tables if (value := at(table, key)) is not None), None) in allowed

    def inverse(self) -> Alias:
        """Return the translation from new to old."""
        return replace(self, old=self.new, new=self.old, values={new: old for old, new in self.values.items()})

    def within(self) -> Alias:
        """Return the alias as seen from inside the first table of its keys."""
        return replace(self, old=self.old[1:], new=self.new[1:])


def _alias(old: str, new: str, values: Mapping[str, str] | None = None, **only: tuple[str | None, ...]) -> Alias:
    """``only`` has one entry, by its key with ``__`` for the dot."""
    conditions = [(tuple(key.split("__")), allowed) for key, allowed in only.items()]
    return Alias(tuple(old.split(".")), tuple(new.split(".")), values or {}, *conditions)


INTERRUPT = {"lose": "restart", "drop": "abort"}
ALIASES = (
    _alias("allocation.sharing", "cell.scheduler"),
    _alias("allocation.channel", "allocation.channel_estimate", {"now": "instantaneous"}),
    _alias("rounds.infeasible", "rounds.infeasible_policy"),
    _alias("rounds.first_infeasible", "rounds.first_round_policy"),
    _alias("rounds.over_budget", "rounds.on_budget_exceeded", {"go on": "continue", "drop": "abort"}),
    _alias("rounds.wait", "rounds.retry_after"),
    _alias("population.idle", "population.idle_power"),
    _alias("population.harvest", "population.harvest_power"),
    _alias("population.loss.tries", "population.loss.max_attempts"),
    _alias("population.availability.work", "population.availability.on_interrupt", INTERRUPT),
    _alias("population.crash.work", "population.crash.on_interrupt", INTERRUPT),
    _alias("population.crash.every", "population.crash.mean_time_between_failures"),
    _alias("population.crash.repair", "population.crash.mean_repair_time"),
    _alias("population.mobility.every", "population.mobility.update_interval"),
    _alias("population.throttle.recovers", "population.throttle.recovery_time"),
    _alias("cell.downlink.to", "cell.downlink.mode", {"all": "broadcast", "each": "unicast"}),
    _alias("cell.downlink.reception", "cell.downlink.receive_power"),
    _alias("cell.rate", "cell.link"),
    _alias("cell.link.cap", "cell.link.max_spectral_efficiency", cell__link__model=(None, "shannon")),
    _alias("learning.local_iterations", "learning.local_epochs"),
    _alias("learning.server", "learning.optimiser"),
    _alias("server.stalest", "server.max_staleness", server__kind=("window",)),
    _alias("server.rate", "server.server_lr", server__kind=("fedbuff",)),
    _alias("server.mixing", "server.alpha", server__kind=("fedasync",)),
)


def canonical(table: Table, below: Mapping[str, Any] | None = None, source: str = "") -> tuple[Table, dict[Key, Key]]:
    """Return a table in the new spellings, and which of its keys (new) were written in an old one.

    ``below`` are the merged layers below it, which may say what kind of server or link an option belongs to; ``source``
    is the file or option that the table comes from. Raise InputError if a key is given in both spellings.
    """
    written: dict[Key, Key] = {}
    for alias in ALIASES:
        if alias.applies(table, below or {}):
            table = _translated(table, alias, source, (), written)
    return table, written


def as_stored(table: Table) -> Table:
    """Return a table in the old spellings, of which digests are made."""
    for alias in reversed(ALIASES):
        if alias.applies(table):
            table = _translated(table, alias.inverse(), "", (), {})
    return table


def canonical_key(key: str, tables: Mapping[str, Any] | None = None) -> str:
    """Return the new spelling of a dotted key, in tables if they are given; populations are addressed by name."""
    steps = tuple(key.split("."))
    name = steps[1:2] if steps[0] == "population" else ()
    steps = (steps[0], *steps[1 + len(name):])
    for alias in ALIASES:
        if steps[:len(alias.old)] == alias.old and (tables is None or alias.applies(tables)):
            steps = (*alias.new, *steps[len(alias.old):])
    return ".".join((steps[0], *name, *steps[1:]))


def old_names(path: Iterable[str | int]) -> dict[str, str]:
    """Return the old names of keys of a table, such as ``("population", 0, "crash")``, and the new ones."""
    table = tuple(step for step in path if isinstance(step, str))
    return {alias.old[-1]: alias.new[-1] for alias in ALIASES if alias.new[:-1] == table}


def _translated(table: Table, alias: Alias, source: str, above: Key, written: dict[Key, Key]) -> Table:
    """Return a copy with one key renamed; ``above`` leads to the table."""
    if alias.old[0] == "population" and alias.new[0] == "population" and not above:
        listed = table.get("population")
        if not isinstance(listed, list | tuple):
            return table
        return {**table, "population": [
            _translated(each, alias.within(), source, ("population", str(each.get("name", "device"))), written)
            if isinstance(each, dict) else each for each in listed]}
    target = table.get(alias.new[0])
    if (value := at(table, alias.old)) is not None and (
            len(alias.new) == 1 or target is None or isinstance(target, dict)):      # else a fault, reported later
        if at(table, alias.new) is not None:
            old, new = (".".join((*above, *key)) for key in (alias.old, alias.new))
            raise InputError("renamed", old, f"it and its new name {new}", "only one of them", f"Remove {old}", source)
        table = _renamed(table, alias.old, alias.new, value)
        written[*above, *alias.new] = (*above, *alias.old)
    value = at(table, alias.new)
    if isinstance(value, str) and value in alias.values:
        table = _put(table, alias.new, alias.values[value])
    return table


def _renamed(table: Table, old: Key, new: Key, value: Any) -> Table:
    """Return a copy with a key renamed in its place, or moved to another table."""
    if len(old) > 1 and old[0] == new[0]:
        return {**table, old[0]: _renamed(table[old[0]], old[1:], new[1:], value)}
    if len(old) == len(new) == 1:
        return {new[0] if name == old[0] else name: item for name, item in table.items()}
    left = {name: item for name, item in table[old[0]].items() if name != old[1]}
    return _put({**table, old[0]: left}, new, value)


def _put(table: Table, key: Key, value: Any) -> Table:
    inner = table.get(key[0])
    return {**table, key[0]: value if len(key) == 1 else _put(inner if isinstance(inner, dict) else {}, key[1:], value)}

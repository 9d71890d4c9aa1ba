"""Checks of a scenario that concern several of its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netsim.base.fields import field_error
from netsim.base.pluralize import pluralize
from netsim.scenario.devices import MOST_DEVICES, PopulationTable
from netsim.scenario.radio import RateTrace, Shadowing

if TYPE_CHECKING:
    from netsim.scenario.schema import Scenario

MEASURED_LINKS = ("airtime", "dedicated")


def check_consistency(scenario: Scenario) -> None:
    """Raise an error for tables that contradict each other, or lack what another table needs."""
    for check in (_check_size, _check_gains, _check_rates, _check_other_channels, _check_shadowing, _check_clock,
                  _check_flops, _check_samples):
        check(scenario)


def _check_size(scenario: Scenario) -> None:
    names = [table.name for table in scenario.population]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise field_error("duplicate", "population", found=f'the name "{twice[0]}"', expected="one for each table")
    if scenario.size > MOST_DEVICES:
        raise field_error("out-of-range", "population", found=f"{scenario.size:,} devices",
                          expected=f"at most {MOST_DEVICES:,}")
    if scenario.selection.cohort > scenario.size:
        raise field_error("more-than-devices", "selection", "cohort", expected=f"at most {scenario.size:,}")


def _moving(scenario: Scenario) -> list[str]:
    return [table.name for table in scenario.population if table.mobility is not None]


def _check_gains(scenario: Scenario) -> None:
    trace, moving = scenario.cell.gain_trace, _moving(scenario)
    if trace is not None and len(trace.db[0]) != scenario.size:
        raise field_error("wrong-length", "cell", "gain_trace", found=pluralize(len(trace.db[0]), "column"),
                          expected=f"one for each of {pluralize(scenario.size, 'device')}")
    if moving and (trace is not None or scenario.cell.channel is not None):
        raise field_error("conflict", "cell", "channel" if trace is None else "gain_trace",
                          expected=f"no mobility of {moving[0]} beside it",
                          hint="It determines the gains, so positions have no effect")


def _check_rates(scenario: Scenario) -> None:
    """Raise an error for measured rates of some populations only, or a downlink without power or rates."""
    for name in ("rate", "downlink_rate"):
        without = [place for place, table in enumerate(scenario.population) if table.values(name) is None]
        if 0 < len(without) < len(scenario.population):
            raise field_error("needs", "population", without[0], "radio", name, expected="it for every population "
                              "or for none")
    downlink = scenario.cell.downlink
    if downlink is not None and downlink.power is None and not scenario.downlink_measured:
        raise field_error("missing", "cell", "downlink", "power")


def _check_other_channels(scenario: Scenario) -> None:
    """Raise an error for measured rates beside another channel, or a link of measured rates without them."""
    cell = scenario.cell
    measured_link = cell.link is not None and cell.link.model in MEASURED_LINKS
    if not scenario.rates_measured:
        if measured_link:
            raise field_error("needs", "cell", "link", "model", expected="measured rates (radio.rate)")
        return
    others = {"gain_trace": cell.gain_trace is not None, "channel": cell.channel is not None,
              "fading": cell.fading != "none", "link": cell.link is not None and not measured_link}
    for name, given in others.items():
        if given:
            raise field_error("conflict", "cell", name, hint="The rates are measured (radio.rate): remove one of them")
    if cell.downlink is not None and not scenario.downlink_measured:
        raise field_error("needs", "population", 0, "radio", "downlink_rate", expected="it for a downlink beside "
                          "measured rates")


def _check_shadowing(scenario: Scenario) -> None:
    shadowing = scenario.cell.shadowing
    if isinstance(shadowing, Shadowing) and not _moving(scenario):
        raise field_error("no-effect", "cell", "shadowing", "correlation", hint="No device moves: give a "
                          f'population mobility, or shadowing = "{shadowing.sd:g} dB"')


def _check_clock(scenario: Scenario) -> None:
    timed = getattr(scenario.cell.gain_trace, "t", None) is not None or any(map(_by_the_clock, scenario.population))
    if scenario.rounds.starts_at is not None and not timed:
        raise field_error("no-effect", "rounds", "starts_at", hint="No population has charging hours, and nothing "
                          "is recorded over time")


def _by_the_clock(table: PopulationTable) -> bool:
    """Return True if a time of day, or a recorded time, matters to a population."""
    recorded = any(getattr(each, "model", "") == "recorded" for each in (table.availability, table.mobility))
    return recorded or table.charging is not None or isinstance(table.values("rate"), RateTrace)


def _check_flops(scenario: Scenario) -> None:
    counted = [place for place, table in enumerate(scenario.population) if table.counts_flops]
    given = scenario.learning.flops_per_sample is not None
    if counted and not scenario.trains and not given:
        raise field_error("needs", "population", counted[0], "cpu", "cycles_per_sample", found='"auto"',
                          expected="learning.flops_per_sample, or a dataset and a model")
    if not counted and given:
        raise field_error("no-effect", "learning", "flops_per_sample",
                          hint='No population has cpu.cycles_per_sample = "auto"')


def _check_samples(scenario: Scenario) -> None:
    auto = [place for place, table in enumerate(scenario.population) if table.samples == "auto"]
    if auto and not scenario.trains:
        raise field_error("needs", "population", auto[0], "samples", expected="a dataset to split, or a number")
    if auto and len(auto) < len(scenario.population):
        raise field_error("conflict", "population", auto[0], "samples", expected='"auto" for every population or '
                          "for none", hint="It splits the whole dataset")

"""Scenario files: TOML, with base files and overrides, to a checked and frozen ``Scenario``."""

from __future__ import annotations

from netsim.scenario.editor_schema import json_schema
from netsim.scenario.loading import builtin_scenarios, load_scenario
from netsim.scenario.schema import Scenario

__all__ = ["Scenario", "builtin_scenarios", "json_schema", "load_scenario"]

"""Who gets which bandwidth, CPU frequency and power in a round: ``Problem -> Plan``, by a method of ``METHODS``."""

from __future__ import annotations

from netsim.allocation.methods import METHODS, allocate, check_method
from netsim.allocation.problem import Infeasible, Plan, Problem, Slots, plan_for, plan_in_slots
from netsim.physics import SHANNON, LinkModel, Shannon

__all__ = [
    "METHODS", "SHANNON", "Infeasible", "LinkModel", "Plan", "Problem", "Shannon", "Slots", "allocate", "check_method",
    "plan_for", "plan_in_slots",
]

"""Who gets which bandwidth, CPU frequency and power in a round: ``Problem -> Plan``, one file a method."""

from __future__ import annotations

from netsim.allocation.methods import METHODS, allocate, check_method
from netsim.allocation.problem import Infeasible, Plan, Problem, plan_for
from netsim.allocation.slot_plan import plan_in_slots
from netsim.allocation.slots import Slots
from netsim.physics import SHANNON, LinkModel, Shannon

__all__ = [
    "METHODS", "SHANNON", "Infeasible", "LinkModel", "Plan", "Problem", "Shannon", "Slots", "allocate", "check_method",
    "plan_for", "plan_in_slots",
]

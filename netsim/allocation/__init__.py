"""Allocation of bandwidth, CPU frequency and power to the devices of a round: ``Problem`` to ``Plan``, by a method."""

from __future__ import annotations

from netsim.allocation.methods import METHODS, allocate, check_method
from netsim.allocation.plan import Infeasible, Plan, Slots, plan_for, plan_in_slots
from netsim.allocation.problem import Problem
from netsim.physics import SHANNON, LinkModel, Shannon

__all__ = [
    "METHODS", "SHANNON", "Infeasible", "LinkModel", "Plan", "Problem", "Shannon", "Slots", "allocate", "check_method",
    "plan_for", "plan_in_slots",
]

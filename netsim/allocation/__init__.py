"""Who gets which bandwidth, CPU frequency and power in a round: ``Problem -> Plan``, one file a method."""

from __future__ import annotations

from netsim.allocation.methods import METHODS, allocate, check_method
from netsim.allocation.problem import Infeasible, Plan, Problem, plan_for

__all__ = ["METHODS", "Infeasible", "Plan", "Problem", "allocate", "check_method", "plan_for"]

"""Registry of allocation methods, and the function that solves a problem with one of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from netsim.allocation.plan import Plan, Slots
from netsim.allocation.problem import Problem
from netsim.base.errors import InputError, describe_value
from netsim.base.registry import Entry, Registry, first_called
from netsim.base.tolerances import CONSTRAINT
from netsim.physics import SHANNON, LinkModel, Shannon


@dataclass(frozen=True)
class Solver(Entry):
    """An allocation method: a function of a problem and its options."""

    keeps: str | None = None      # path of a function that returns the devices that the method keeps of a cohort
    prices: str | None = None     # path of a function that returns the shadow prices at a plan
    bound: str | None = None      # path of a function that returns a lower bound on the round in seconds
    powers: bool = False          # chooses powers within radio.min_power and max_power
    dear: bool = False            # needs seconds for a plan: not tried unless the user names it
    links: str = "any"            # supported link models, see :func:`require_link`


METHODS = Registry("allocation method", "allocation.method", {
    "sao": Solver("netsim.allocation.sao:solve", "exact optimum: the shortest round that keeps every budget",
                  prices="netsim.allocation.sensitivities:shadow_prices"),
    "equal": Solver("netsim.allocation.sao:equal", "equal bandwidth, each CPU as fast as its budget allows",
                    prices="netsim.allocation.sensitivities:equal_prices"),
    "algorithm5": Solver("netsim.allocation.sao:algorithm5", "the paper's Algorithm 5 to the letter",
                         links="shannon"),
    "algorithm6": Solver("netsim.allocation.power:algorithm6", "the paper's Algorithm 6 to the letter: a common power",
                         powers=True, links="shannon"),
    "sao-common-power": Solver("netsim.allocation.power:common", "sao with the best power common to all", powers=True,
                               prices="netsim.allocation.sensitivities:common_power_prices", links="shannon"),
    "sao-joint": Solver("netsim.allocation.power:joint", "exact optimum with a power for each device", powers=True,
                        prices="netsim.allocation.sensitivities:joint_prices", links="uncapped"),
    "tdma": Solver("netsim.allocation.tdma:solve",
                   "the whole band for one after the other: shortest such round, then least energy",
                   keeps="netsim.allocation.tdma:kept", bound="netsim.allocation.tdma:single_device_bound"),
    "sao-adaptive": Solver("netsim.allocation.sao_adaptive:solve",
                           "bands that change in time and CPUs together: the best that a search finds",
                           keeps="netsim.allocation.tdma:kept",
                           bound="netsim.allocation.sao_adaptive:price_bound", dear=True, links="shannon"),
    "fedl": Solver("netsim.allocation.fedl:solve",
                   "least total energy + lambda x round; keeps budgets only if lambda is tuned", {"weight": "lambda"},
                   links="uncapped"),
    "rra": Solver("netsim.allocation.rra:solve",
                  "least sending energy for a deadline; leaves out devices not worth it", {"lambda": "weight"},
                  keeps="netsim.allocation.rra:kept", links="uncapped"),
}, given=1, check=first_called("problem", "allocation.method"))


def allocate(problem: Problem, method: str = "sao", **options: Any) -> Plan:
    """Solve an allocation problem with a method.

    Parameters
    ----------
    problem : Problem
        Devices and band of one round.
    method : str
        Name in :data:`METHODS`, or ``"package.module:function"`` for an own method: a function, installed or on
        PYTHONPATH, whose first parameter is called ``problem``, that returns a :class:`Plan` or raises
        :class:`Infeasible`. Its other parameters are its options.
    **options : Any
        Options of the method.

    Returns
    -------
    Plan
        The method's plan.

    Raises
    ------
    Infeasible
        If the method has no plan for the problem.
    InputError
        If the method or an option is unknown, the link model is not supported, or an own method returns no valid plan.

    Examples
    --------
    >>> from netsim.allocation import Problem, allocate
    >>> problem = Problem(bits=1e6, cycles=1e9, capacitance=1e-28, gain=[1e-10, 1e-11], power_w=0.1, budget_j=0.3,
    ...                   cpu_min_hz=1e8, cpu_max_hz=1e9, bandwidth_hz=1e6, noise_w_per_hz=4e-21)
    >>> plan = allocate(problem)
    >>> f"{plan.round_s:.4f} s", [f"{b / 1e3:.0f} kHz" for b in plan.bandwidth_hz]
    ('1.1941 s', ['410 kHz', '590 kHz'])
    """
    if not isinstance(problem, Problem):
        raise InputError("wrong-type", "problem", describe_value(problem), "a Problem")
    if not isinstance(method, str):
        raise InputError("wrong-type", "method", describe_value(method), 'the name of a method, such as "sao"')
    if method in METHODS:
        require_link("method", method, METHODS[method].links, problem.link, tables=problem.cpu_power is not None)
    plan: Plan = METHODS.make(method, options)(problem)
    if method not in METHODS:
        check_plan(plan, problem, method)
    return plan


NEEDED_LINKS = {"shannon": "Shannon's link, with or without efficiency and cap",
                "uncapped": "Shannon's link without a cap on the rate"}


def takes_link(links: str, link: LinkModel) -> bool:
    """Return True if a method for ``links`` ("any", "shannon", "uncapped") supports this link model."""
    return links == "any" or (type(link) is Shannon and (links == "shannon" or link.cap == math.inf))


def require_link(key: str, name: str, links: str, link: LinkModel, *, tables: bool = False) -> None:
    """Raise :class:`InputError` if a method does not support the link model, or ``tables`` of CPU power."""
    if tables and links != "any":
        raise InputError("unsupported", key, f'"{name}" with a table of CPU power (cpu.power)', "power kappa f^3",
                         "Take sao, equal or tdma, which are exact for tables too, or leave cpu.power out")
    if not takes_link(links, link):
        what = ("a rate cap (cell.link.max_spectral_efficiency)" if type(link) is Shannon
                else "measured rates (radio.rate)" if getattr(link, "measured", False)
                else "a link model of your own (cell.link.model)")
        raise InputError("unsupported", key, f'"{name}" with {what}', NEEDED_LINKS[links],
                         "Take sao, equal or tdma, which are exact for any link model, or change cell.link")


def check_plan(plan: Any, problem: Problem, method: str) -> None:
    """Raise :class:`InputError` if an own method returns no valid plan for the problem."""
    where = f"allocation method {method}"
    if not isinstance(plan, Plan):
        raise InputError("wrong-answer", where, type(plan).__name__, "a Plan, as plan_for makes it")
    for name in ("bandwidth_hz", "cpu_hz", "power_w"):
        values = np.asarray(getattr(plan, name))
        if values.shape != (len(problem),):
            raise InputError("wrong-answer", where, f"{name} of shape {values.shape}",
                             f"one value for each of {len(problem)} devices")
        wrong = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
        if wrong.size:
            raise InputError("wrong-answer", where, f"{name} of {problem.called(wrong[0])} = {values[wrong[0]]}",
                             "finite and above 0")
    fast = np.flatnonzero(plan.cpu_hz > problem.cpu_max_hz * (1 + CONSTRAINT))
    if fast.size:
        raise InputError("wrong-answer", where, f"cpu_hz of {problem.called(fast[0])} = {plan.cpu_hz[fast[0]]:g}",
                         f"at most its cpu_max_hz, {problem.cpu_max_hz[fast[0]]:g}")
    if plan.slots is not None:
        _check_slots(plan, problem, where)
    if plan.bandwidth_used_hz > problem.bandwidth_hz * (1 + CONSTRAINT):
        raise InputError("wrong-answer", where, f"{plan.bandwidth_used_hz:g} Hz in all",
                         f"at most the band of {problem.bandwidth_hz:g} Hz")


def _check_slots(plan: Plan, problem: Problem, where: str) -> None:
    """Check that each device sends without a break, and only after it has computed."""
    slots = plan.slots
    if not isinstance(slots, Slots) or not np.array_equal(np.unique(slots.device), np.arange(len(problem))):
        raise InputError("wrong-answer", where, "slots that are none, or not of every device", "slots of every device",
                         "plan_in_slots makes them")
    together = np.diff(slots.device) == 0
    if (np.diff(slots.device) < 0).any() or (slots.t0_s[1:] != slots.t1_s[:-1])[together].any() or not (
            np.isfinite(slots.hertz) & (slots.hertz > 0.0)).all():
        raise InputError("wrong-answer", where, "slots out of order", "slots by rising device, then time, each with "
                         "some hertz, and each of a device beginning where the one before ends",
                         "plan_in_slots makes them so")
    early = np.flatnonzero(plan.start_s < plan.compute_s * (1 - CONSTRAINT))
    if early.size:
        raise InputError("wrong-answer", where, f"a first slot of {problem.called(early[0])} at "
                         f"{plan.start_s[early[0]]:g} s",
                         f"not before it has computed, at {plan.compute_s[early[0]]:g} s")


def check_method(
    method: str, options: Mapping[str, Any], link: LinkModel = SHANNON, *, tables: bool = False,
) -> None:
    """Raise :class:`InputError` if the method is unknown, or rejects these options or the link model."""
    METHODS.options(method, options)
    if method in METHODS:
        require_link("allocation.method", method, METHODS[method].links, link, tables=tables)

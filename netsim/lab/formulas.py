"""The laws of the cell with one device's numbers put in, as Markdown with LaTeX."""

from __future__ import annotations

import re

from netsim.allocation import Plan, Problem
from netsim.base import units


def device_formulas(problem: Problem, plan: Plan, n: int, *, budget: bool = True) -> str:
    """Return the formulas of time and energy of the device at position ``n``, with numbers, and its budget."""
    z, cycles, f = float(problem.bits[n]), float(problem.cycles[n]), float(plan.cpu_hz[n])
    b, power = float(plan.bandwidth_hz[n]), float(plan.power_w[n])
    snr_hz = float(problem.gain[n]) * power / problem.noise_w_per_hz
    compute_s, upload_s = float(plan.compute_s[n]), float(plan.upload_s[n])
    compute_j, total_j = float(plan.compute_energy_j[n]), float(plan.device_energy_j[n])
    mark = ">" if plan.over_budget[n] else r"\le"
    limit = rf" {mark} e = {_unit(float(problem.budget_j[n]), 'energy')}" if budget else ""
    lines = [
        rf"J &= \frac{{h\,p}}{{N_0}} = \frac{{{_power_of_ten(problem.gain[n])} \cdot {_unit(power, 'power')}}}"
        rf"{{{_power_of_ten(problem.noise_w_per_hz)}\,\text{{W/Hz}}}} = {_unit(snr_hz, 'frequency')}",
        rf"r &= b \log_2\!\left(1 + \frac{{J}}{{b}}\right) = {_unit(b, 'frequency')} \cdot "
        rf"\log_2\!\left(1 + {_number(snr_hz / b)}\right) = {_rate(z / upload_s)}",
        rf"t^\text{{up}} &= \frac{{z}}{{r}} = \frac{{{_unit(z, 'data size')}}}{{{_rate(z / upload_s)}}} = "
        rf"\mathbf{{{_unit(upload_s, 'time')}}}",
        rf"t^\text{{cmp}} &= \frac{{U}}{{f}} = \frac{{{_power_of_ten(cycles)}}}{{{_unit(f, 'frequency')}}} = "
        rf"\mathbf{{{_unit(compute_s, 'time')}}}",
        rf"t &= t^\text{{cmp}} + t^\text{{up}} = \mathbf{{{_unit(compute_s + upload_s, 'time')}}}",
        rf"E^\text{{cmp}} &= \tfrac{{\alpha}}{{2}} U f^2 = {_power_of_ten(problem.capacitance[n])} \cdot "
        rf"{_power_of_ten(cycles)} \cdot ({_unit(f, 'frequency')})^2 = {_unit(compute_j, 'energy')}",
        rf"E^\text{{up}} &= p\,t^\text{{up}} = {_unit(power, 'power')} \cdot {_unit(upload_s, 'time')} = "
        rf"{_unit(total_j - compute_j, 'energy')}",
        rf"E &= E^\text{{cmp}} + E^\text{{up}} = \mathbf{{{_unit(total_j, 'energy')}}}{limit}",
    ]
    return "$$\n\\small\n\\begin{aligned}\n" + " \\\\[4pt]\n".join(lines) + "\n\\end{aligned}\n$$"


def _unit(value: float, dimension: str) -> str:
    """``111.8\\,\\text{ms}``."""
    number, unit = units.format(value, dimension).split()
    return rf"{number}\,\text{{{unit}}}"


def _rate(bits_per_s: float) -> str:
    return re.sub(r"bit\}", "bit/s}", _unit(bits_per_s, "data size"))


def _number(value: float) -> str:
    return f"{value:.4g}" if 1e-3 <= abs(value) < 1e5 else _power_of_ten(value)


def _power_of_ten(value: float) -> str:
    """``3.98 \\cdot 10^{-21}``."""
    digits, exponent = f"{value:.2e}".split("e")
    head = digits.rstrip("0").rstrip(".")
    return f"10^{{{int(exponent)}}}" if head == "1" else rf"{head} \cdot 10^{{{int(exponent)}}}"

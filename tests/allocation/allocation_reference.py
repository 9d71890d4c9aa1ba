"""The same problems for an independent solver: CVXPY with Clarabel, in MHz, Mbit, GHz, Gcycles and mJ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netsim.allocation import SHANNON, Problem, Shannon

if TYPE_CHECKING:
    import cvxpy as cp  # at run time only where it is used: it takes longer to load than many a test


class Scaled:
    """A problem's constants in units that an interior-point solver likes."""

    def __init__(self, problem: Problem) -> None:
        self.J = problem.snr_hz / 1e6
        self.z = problem.bits / 1e6
        self.U = problem.cycles / 1e9
        self.G = problem.compute_weight * 1e18 * 1e3
        self.H = self.z * problem.power_w * 1e3
        self.e = problem.budget_j * 1e3
        self.low, self.high = problem.cpu_min_hz / 1e9, problem.cpu_max_hz / 1e9
        self.B = problem.bandwidth_hz / 1e6


def upload(b: cp.Expression, J: np.ndarray, link: Shannon = SHANNON) -> cp.Expression:
    """1 / (efficiency min(b log2(1 + J/b), cap b)), convex in b."""
    import cvxpy as cp

    per_bit = cp.inv_pos(-cp.rel_entr(b, b + J) / np.log(2))
    return (per_bit if link.cap == np.inf else cp.maximum(per_bit, cp.inv_pos(b) / link.cap)) / link.efficiency


def sao(problem: Problem) -> float:
    """The optimal round time of problem (19) in seconds; inf where the solver finds it infeasible."""
    import cvxpy as cp

    c = Scaled(problem)
    b, f, T = cp.Variable(len(problem)), cp.Variable(len(problem)), cp.Variable()
    per_bit = upload(b, c.J, problem.link)
    task = cp.Problem(cp.Minimize(T), [
        cp.multiply(c.G, cp.square(f)) + cp.multiply(c.H, per_bit) <= c.e,
        cp.multiply(c.z, per_bit) + cp.multiply(c.U, cp.inv_pos(f)) <= T,
        cp.sum(b) <= c.B, f >= c.low, f <= c.high,
    ])
    task.solve(solver=cp.CLARABEL)
    return float(task.value)


def rra(problem: Problem, deadline_s: float, weight: float) -> float:
    """The least of sending energy less rewards over parts and shares in [0, 1], in joules."""
    import cvxpy as cp

    left = deadline_s - problem.cycles / problem.cpu_max_hz
    whole = problem.bandwidth_hz * left
    full = problem.bits * np.log(2) / whole                        # nats a symbol with the whole band
    scale = whole * problem.noise_w_per_hz / problem.gain
    unit = weight
    beta, gamma, power = (cp.Variable(len(problem)) for _ in range(3))
    task = cp.Problem(cp.Minimize(cp.sum(cp.multiply(scale / unit, power - gamma)) - weight / unit * cp.sum(beta)), [
        cp.constraints.ExpCone(cp.multiply(full, beta), gamma, power), cp.sum(gamma) <= 1, beta >= 0, beta <= 1,
    ])
    task.solve(solver=cp.CLARABEL, tol_gap_rel=1e-9, tol_gap_abs=1e-9, tol_feas=1e-9)
    return float(task.value) * unit


def joint_need(problem: Problem, round_s: float) -> float:
    """The least bandwidth in all, in Hz, for a round of this length when CPUs have one speed and powers are free."""
    import cvxpy as cp

    c = Scaled(problem)
    left = round_s - c.U / c.low
    energy_mj = c.e - c.G * c.low**2
    low_w, high_w = problem.power_range_w
    per_mj = problem.gain / problem.noise_w_per_hz / 1e3 / 1e6
    product, sent = cp.Variable(len(problem)), cp.Variable(len(problem))      # bandwidth x time in MHz s, energy in mJ
    bits = -cp.rel_entr(product, product + cp.multiply(per_mj, sent)) / np.log(2)
    task = cp.Problem(cp.Minimize(cp.sum(cp.multiply(1 / left, product))), [
        bits >= c.z, sent <= energy_mj, sent <= high_w * left * 1e3,
    ])
    task.solve(solver=cp.CLARABEL)
    assert (sent.value >= low_w * left * 1e3 * (1 - 1e-6)).all(), "the least power binds: not this convex form"
    return float(task.value) * 1e6


def fedl(problem: Problem, weight: float) -> float:
    """The least total energy + weight x round, in joules."""
    import cvxpy as cp

    c = Scaled(problem)
    b, f, T = cp.Variable(len(problem)), cp.Variable(len(problem)), cp.Variable()
    per_bit = upload(b, c.J)
    energy_mj = cp.sum(cp.multiply(c.G, cp.square(f)) + cp.multiply(c.H, per_bit))
    task = cp.Problem(cp.Minimize(energy_mj + weight * 1e3 * T), [
        cp.multiply(c.z, per_bit) + cp.multiply(c.U, cp.inv_pos(f)) <= T, cp.sum(b) <= c.B, f >= c.low, f <= c.high,
    ])
    task.solve(solver=cp.CLARABEL)
    return float(task.value) / 1e3

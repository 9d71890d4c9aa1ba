"""The lab's sentences: a method's round in large letters, or why there is none; and what its pictures show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from netsim.base.units import format
from netsim.lab.view import Answer, LabView, last_alone, part_of_band

MOST_TOLD = 12          # of many devices, for those who listen to a picture


def headline(view: LabView, answer: Answer) -> str:
    """A method's round in large letters and who held it up, or which devices can't take part and why."""
    method = escape(answer.method)
    if answer.plan is None:
        return (f'<div class="headline stuck" data-method="{method}"><b>{method}</b> <span class="time">no plan</span>'
                f"<p>{escape(answer.reason)}</p></div>")
    plan, last = answer.plan, last_alone(answer.plan)
    if last is None:
        pace = "all end together" if len(plan) > 1 else "one device alone"
    else:
        pace = f"waits for device {view.devices[last]}, {view.distance_m[last]:.0f} m away"
    helped = f"<p>{escape(what_helps(view, answer))}</p>" if answer.pace else ""
    over = f"; {plan.over_budget.sum()} over budget" if plan.over_budget.any() else ""
    return (f'<div class="headline" data-method="{method}" data-round-s="{plan.round_s!r}"><b>{method}</b> '
            f'<span class="time">{format(plan.round_s, "time")}</span>'
            f'<p>{pace}; {format(plan.energy_j, "energy")} in all{over}</p>{helped}</div>')


def what_helps(view: LabView, answer: Answer) -> str:
    """Who sets the pace, and at what price; or that it is no single one."""
    found, last = answer.pace, None if answer.plan is None else last_alone(answer.plan)
    assert found is not None
    number = view.devices[last if found.device is None and last is not None else found.device or 0]
    change = found.change.replace(f"device {number}'s ", "its ")
    price = (f"with {change} it is {format(found.saves_s, 'time', 3)} shorter "
             f"(the next 1 %: {format(found.next_s, 'time', 3)})")
    if found.device is not None:
        return f"{'and yet ' if last is None else ''}device {number} sets the pace: {price}"
    return (f"no single device sets the pace: {price}" if last is None
            else f"more for device {number} alone would help less than for all: {price}")


def verdict(view: LabView) -> str:
    """The two methods against each other in a sentence."""
    if len(view.plans) < 2 or view.plans[0].round_s <= 0.0:
        return ""
    left, right = view.answers[0].method, view.answers[-1].method
    ratio = view.plans[-1].round_s / view.plans[0].round_s - 1.0
    if abs(ratio) < 5e-4:
        return "Both rounds are equally long."
    return f"The round under {right} is {abs(ratio):.1%} {'longer' if ratio > 0 else 'shorter'} than under {left}."


def rounds(view: LabView) -> str:
    """Each method's round in plain words, and the two against each other."""
    said = [f"**{answer.method}** has no plan ({answer.reason})" if answer.plan is None else
            f"**{answer.method}** takes {1e3 * answer.plan.round_s:.1f} ms and {1e3 * answer.plan.energy_j:.0f} mJ"
            for answer in view.answers]
    return f"{', '.join(said)}. {verdict(view)}".strip()
# What a picture shows, in words and numbers, for those who can't see it.

def listed(pieces: Iterable[str]) -> str:
    """The first of many facts as one sentence, and how many more there are."""
    told = list(pieces)
    more = f"; and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else ""
    return f"{'; '.join(told[:MOST_TOLD])}{more}."


def work(view: LabView, answer: Answer) -> str:
    """Who computes, uploads and waits how long, the slowest first."""
    plan = answer.plan
    if plan is None:
        return _stuck(view, answer)
    waits_s = plan.round_s - plan.compute_s - plan.upload_s
    rows = listed(f"device {view.devices[n]} computes {1e3 * plan.compute_s[n]:.1f} ms, uploads "
                  f"{1e3 * plan.upload_s[n]:.1f} ms, waits {1e3 * max(waits_s[n], 0.0):.1f} ms, "
                  f"done at {1e3 * plan.end_s[n]:.1f} ms" for n in view.order)
    pace = "" if answer.sets_pace is None else f" Device {view.devices[answer.sets_pace]} sets the pace."
    return f"A round of {format(plan.round_s, 'time')} with {len(plan)} devices, the slowest on top: {rows}{pace}"


def shares(view: LabView, answer: Answer) -> str:
    """Who gets how much of the band."""
    if answer.plan is None:
        return _stuck(view, answer)
    whole = format(view.problem.bandwidth_hz, "frequency", 3)
    return f"Of the band of {whole}: " + listed(
        f"device {view.devices[n]} has {format(float(answer.plan.bandwidth_hz[n]), 'frequency', 3)} from "
        f"{1e3 * answer.plan.start_s[n]:.1f} to {1e3 * answer.plan.end_s[n]:.1f} ms" for n in view.order)


def spent(view: LabView, answer: Answer) -> str:
    """Who spends how much of its budget."""
    if answer.plan is None:
        return _stuck(view, answer)
    return listed(f"device {view.devices[n]} spends {1e3 * answer.plan.device_energy_j[n]:.2f} of "
                  f"{1e3 * view.problem.budget_j[n]:.2f} mJ" for n in view.order)


def means(methods: Sequence[tuple[str, tuple[float, float, float]]]) -> str:
    """Mean compute, upload and waiting time in ms, method by method."""
    return listed(f"{method}: compute {compute:.1f} ms, upload {upload:.1f} ms, wait {wait:.1f} ms"
                  for method, (compute, upload, wait) in methods) if methods else "There is no plan."


def places(view: LabView, answer: Answer) -> str:
    """Where the devices of the cohort are, and which part of the band they get."""
    share = None if answer.plan is None else part_of_band(answer.plan, view.problem.bandwidth_hz)
    return f"{len(view.devices)} of {len(view.population.x_m)} devices take part: " + listed(
        f"device {view.devices[n]} is {view.distance_m[n]:.0f} m away"
        + ("" if share is None else f" and has {share[n]:.1%} of the band") for n in view.order)


def curve_in_words(name: str, points: Sequence[tuple[float, float]]) -> str:
    """A curve by its ends, its least and its largest value."""
    found = [point for point in points if math.isfinite(point[1])]
    if not found:
        return f"{name}: nothing to show."
    least, most = min(found, key=lambda point: point[1]), max(found, key=lambda point: point[1])
    return (f"{name}: {found[0][1]:.4g} at {found[0][0]:.4g}, {found[-1][1]:.4g} at {found[-1][0]:.4g}; "
            f"least {least[1]:.4g} at {least[0]:.4g}, most {most[1]:.4g} at {most[0]:.4g}.")


def _stuck(view: LabView, answer: Answer) -> str:
    return "There is no plan: " + listed(f"device {view.devices[n]} can't keep its budget" for n in answer.stuck)

"""Captions of the lab: the round time of a method, the device that limits it, or the reason for having no plan."""

from __future__ import annotations

from html import escape

from netsim.base.tolerances import SHOWN_RATIO
from netsim.base.units import format
from netsim.lab.round_model import LabView, MethodResult, single_last_device
from netsim.lab.svg import listed


def headline(view: LabView, answer: MethodResult) -> str:
    """Return as HTML a method's round time and the device that limits it, or the reason for having no plan."""
    method = escape(answer.method)
    if answer.plan is None:
        return (f'<div class="headline stuck" data-method="{method}"><b>{method}</b> <span class="time">no plan</span>'
                f"<p>{escape(answer.reason)}</p></div>")
    plan, last = answer.plan, single_last_device(answer.plan)
    if last is None:
        pace = "all devices finish together" if len(plan) > 1 else "one device alone"
    else:
        pace = f"waits for device {view.devices[last]}, {view.distance_m[last]:.0f} m away"
    helped = f"<p>{escape(what_helps(view, answer))}</p>" if answer.pace else ""
    over = f"; {plan.over_budget.sum()} over budget" if plan.over_budget.any() else ""
    return (f'<div class="headline" data-method="{method}" data-round-s="{plan.round_s!r}"><b>{method}</b> '
            f'<span class="time">{format(plan.round_s, "time")}</span>'
            f'<p>{pace}; {format(plan.energy_j, "energy")} in all{over}</p>{helped}</div>')


def what_helps(view: LabView, answer: MethodResult) -> str:
    """Name the device that limits the round, if one does, and the saving of the best change."""
    found, last = answer.pace, None if answer.plan is None else single_last_device(answer.plan)
    assert found is not None
    number = view.devices[last if found.device is None and last is not None else found.device or 0]
    change = found.change.replace(f"device {number}'s ", "its ")
    price = (f"{change[0].upper()}{change[1:]} would shorten the round by {format(found.saves_s, 'time', 3)}; "
             f"1 % more, by {format(found.next_s, 'time', 3)}.")
    if found.device is not None:
        return f"Device {number} limits the round. {price}"
    return (f"No single device limits the round. {price}" if last is None
            else f"Raising the limits of device {number} alone would help less. {price}")


def verdict(view: LabView) -> str:
    if len(view.plans) < 2 or view.plans[0].round_s <= 0.0:
        return ""
    left, right = view.answers[0].method, view.answers[-1].method
    ratio = view.plans[-1].round_s / view.plans[0].round_s - 1.0
    if abs(ratio) < SHOWN_RATIO:
        return "Both rounds are equally long."
    return f"The round under {right} is {abs(ratio):.1%} {'longer' if ratio > 0 else 'shorter'} than under {left}."


def rounds(view: LabView) -> str:
    """Return each method's round time and energy in a sentence, and compare the two."""
    said = [f"**{answer.method}** has no plan ({answer.reason})" if answer.plan is None else
            f"**{answer.method}** takes {1e3 * answer.plan.round_s:.1f} ms and {1e3 * answer.plan.energy_j:.0f} mJ"
            for answer in view.answers]
    return f"{', '.join(said)}. {verdict(view)}".strip()


def infeasible_text(view: LabView, answer: MethodResult) -> str:
    """Name the devices that make the method infeasible; return an empty text if it has a plan."""
    return "" if answer.plan else "There is no plan: " + listed(
        [f"device {view.devices[n]} can't keep its budget" for n in answer.stuck])

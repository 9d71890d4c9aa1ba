"""The lab's sentences: a method's round in large letters, or why there is none."""

from __future__ import annotations

from html import escape

from netsim.base.tolerances import SHOWN_RATIO
from netsim.base.units import format
from netsim.lab.svg import listed
from netsim.lab.view import Answer, LabView, last_alone


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
    if abs(ratio) < SHOWN_RATIO:
        return "Both rounds are equally long."
    return f"The round under {right} is {abs(ratio):.1%} {'longer' if ratio > 0 else 'shorter'} than under {left}."


def rounds(view: LabView) -> str:
    """Each method's round in plain words, and the two against each other."""
    said = [f"**{answer.method}** has no plan ({answer.reason})" if answer.plan is None else
            f"**{answer.method}** takes {1e3 * answer.plan.round_s:.1f} ms and {1e3 * answer.plan.energy_j:.0f} mJ"
            for answer in view.answers]
    return f"{', '.join(said)}. {verdict(view)}".strip()


def stuck(view: LabView, answer: Answer) -> str:
    """Which devices keep a method from having a plan; nothing where it has one."""
    return "" if answer.plan else "There is no plan: " + listed(
        [f"device {view.devices[n]} can't keep its budget" for n in answer.stuck])

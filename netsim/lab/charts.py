"""Charts of one round for the lab, drawn as SVG.

A slider redraws all of them at once. As text they cost a few milliseconds, where as many interactive charts take longer
than one is willing to wait while dragging.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from netsim.allocation import Plan
from netsim.base.types import Floats
from netsim.base.units import format
from netsim.lab import captions
from netsim.lab.round_model import LabView, MethodResult, part_of_band
from netsim.lab.svg import GRID, INK, PAPER, SOFT, Canvas, Scale, axis, fixed, legend, paint

WIDTH = 440.0
LEFT = 62.0                 # where bars begin, right of the devices' names
MOST_ROWS = 40              # distinguishable rows
IDLE, PALE, CRITICAL = map(paint, ("idle", "pale", "critical"))
Row = tuple[float, float]   # top and height
PARTS = {part: paint(part) for part in ("compute", "upload", "wait")}


def gantt(view: LabView, answer: MethodResult) -> Canvas:
    """Draw the computing and upload times of each device, the slowest on top; the limiting device is marked."""
    canvas, rows, scale = _bars(view, "time in the round (ms)", 1e3 * view.longest_s)
    canvas.label = f"Computing, uploading and waiting of each device under {answer.method}"
    canvas.says = captions.infeasible_text(view, answer)
    legend(canvas, LEFT, 12, PARTS)
    plan = answer.plan
    if plan is None:
        return _without_plan(canvas, answer, rows)
    for n, row in rows.items():
        _work(canvas, scale, row, 1e3 * np.array([plan.compute_s[n], plan.start_s[n], plan.upload_s[n], plan.round_s]),
              describe(view, answer, n), outlined=n == answer.limiting_device)
    _end(canvas, scale, 1e3 * plan.round_s)
    return canvas


def band(view: LabView, answer: MethodResult) -> Canvas:
    """Draw the allocated band over time, an area per device; white areas are unused."""
    canvas = Canvas(WIDTH, 150.0, f"The band over time under {answer.method}", captions.infeasible_text(view, answer))
    scale = Scale(LEFT, WIDTH - 12, 1.02e3 * (view.longest_s or 1.0))
    axis(canvas, scale, 20, canvas.height - 34, "time in the round (ms)")
    whole_hz, top, bottom = view.problem.bandwidth_hz, 22.0, canvas.height - 34
    canvas.text(LEFT - 6, top + 8, format(whole_hz, "frequency", 3), anchor="end", size=10)
    canvas.text(LEFT - 6, bottom, "0", anchor="end", size=10)
    if answer.plan is None:
        return canvas
    edges, hertz = shares_over_time(answer.plan)
    used = float(np.diff(edges) @ hertz.sum(axis=1)) / (whole_hz * answer.plan.round_s)
    canvas.text(LEFT, 12, f"the band in use: {used:.0%} of it, over the round", fill=SOFT)
    above, up = np.cumsum(hertz, axis=1), Scale(bottom, top, whole_hz)
    for place, n in enumerate(np.argsort(answer.plan.start_s, kind="stable").tolist()):
        there = np.flatnonzero(hertz[:, n])
        if there.size:
            span = range(there[0], there[-1] + 1)
            steps = [(scale(1e3 * float(edges[i + side])), i) for i in span for side in (0, 1)]
            tops = [(x, up(float(above[i, n]))) for x, i in steps]
            floors = [(x, up(float(above[i, n] - hertz[i, n]))) for x, i in reversed(steps)]
            canvas.area([*tops, *floors], PARTS["upload"] if place % 2 else PALE, tip=describe(view, answer, n))
    _end(canvas, scale, 1e3 * answer.plan.round_s)
    return canvas


def shares_over_time(plan: Plan) -> tuple[Floats, Floats]:
    """Return the times of changes, shape (K,), and the bandwidth of each device in each interval, shape (K - 1, N)."""
    slots = plan.slots
    rows = ((plan.start_s, plan.end_s, np.arange(len(plan)), plan.bandwidth_hz) if slots is None else
            (slots.t0_s, slots.t1_s, slots.device, slots.hertz))
    edges = np.unique(np.concatenate([[0.0, plan.round_s], *rows[:2]]))
    hertz = np.zeros((len(edges) - 1, len(plan)))
    for t0, t1, n, hz in zip(*rows, strict=True):
        hertz[np.searchsorted(edges, t0):np.searchsorted(edges, t1), int(n)] = hz
    return edges, hertz


def timeline(
    names: Sequence[str], compute_s: Sequence[float], upload_s: Sequence[float], round_s: float,
    pace: str | None = None,
) -> Canvas:
    """Draw a round of a run, the slowest device on top; ``pace`` is the name of the device that limits it."""
    canvas, rows, scale = _rows(names, "time in the round (ms)", 1e3 * round_s)
    canvas.label = "Who computes, uploads and waits when"
    legend(canvas, LEFT, 12, PARTS)
    for place, row in rows.items():
        ms = 1e3 * np.array([compute_s[place], compute_s[place], upload_s[place], round_s])
        _work(canvas, scale, row, ms, names[place], outlined=names[place] == pace)
    _end(canvas, scale, 1e3 * round_s)
    return canvas


def schedule(
    names: Sequence[str], spans: Iterable[tuple[int, str, float, float]], models: Iterable[float], until_s: float,
) -> Canvas:
    """Draw the beginning of a run: spans of each device, and a line at every new model.

    A span is the device's place in ``names``, a part, and its seconds from and to.
    """
    canvas, rows, scale = _rows(names, "simulated time (ms)", 1e3 * until_s)
    made = [at for at in models if at <= until_s]
    canvas.label = "What each device did when, and when new models were made"
    canvas.says = (f"{len(names)} devices in the first {1e3 * until_s:.0f} ms: {len(made)} new models"
                   + (f", the first at {1e3 * made[0]:.1f} ms, the last at {1e3 * made[-1]:.1f} ms." if made else "."))
    legend(canvas, LEFT, 12, {**PARTS, "a new model": INK})
    for place, part, t0, t1 in spans:
        if t0 < until_s:
            y, height = rows[place]
            left, right = scale(1e3 * t0), scale(1e3 * min(t1, until_s))
            canvas.rect(left, y, right - left, height, PARTS[part], tip=f"{part} {1e3 * (t1 - t0):.1f} ms", name=part)
    for at in made:
        canvas.line(scale(1e3 * at), 20, scale(1e3 * at), canvas.height - 34, INK, tip=f"at {1e3 * at:.1f} ms")
    return canvas


def energy(view: LabView, answer: MethodResult) -> Canvas:
    """Draw the energy of each device against its budget."""
    plan, budget = answer.plan, (1e3 * view.problem.budget_j).tolist()
    spent = [1e3 * float(other.device_energy_j.max()) for other in view.plans]
    canvas, rows, scale = _bars(view, "energy (mJ)", max([*budget, *spent]))
    canvas.label, canvas.says = f"Energy against budget under {answer.method}", captions.infeasible_text(view, answer)
    legend(canvas, LEFT, 12, {"compute": PARTS["compute"], "upload": PARTS["upload"], "budget": INK})
    for n, (y, height) in rows.items():
        over = False
        if plan is not None:
            over = bool(plan.over_budget[n])
            compute, total = 1e3 * float(plan.compute_energy_j[n]), 1e3 * float(plan.device_energy_j[n])
            with canvas.group(f"device {view.devices[n]}: computing {compute:.2f} mJ, "
                              f"sending {total - compute:.2f} mJ of {budget[n]:.2f} mJ"):
                canvas.rect(scale(0), y, scale(compute) - scale(0), height, PARTS["compute"])
                canvas.rect(scale(compute), y, scale(total) - scale(compute), height, PARTS["upload"])
        canvas.line(scale(budget[n]), y - 2, scale(budget[n]), y + height + 2, CRITICAL if over else INK,
                    stroke_width="2.5")
    return canvas if plan is not None else _without_plan(canvas, answer, rows)


def latency(view: LabView) -> Canvas:
    """Draw the mean times of the cohort, a bar per method; the parts add up to the round."""
    canvas = Canvas(WIDTH, 62.0 + 26 * len(view.answers), "Mean compute, upload and waiting time, method by method",
                    "" if view.plans else "There is no plan.")
    scale = Scale(LEFT, WIDTH - 12, 1.02e3 * (view.longest_s or 1.0))
    axis(canvas, scale, 20, canvas.height - 34, "mean over the cohort (ms)")
    legend(canvas, LEFT, 12, PARTS)
    for place, answer in enumerate(view.answers):
        y = 24.0 + 26 * place
        canvas.text(LEFT - 6, y + 14, answer.method, anchor="end")
        if answer.plan is None:
            canvas.text(LEFT + 4, y + 14, "no plan keeps every budget", fill=CRITICAL)
            continue
        began = 0.0
        for part, length in zip(PARTS, parts_ms(answer.plan), strict=True):
            x, wide = scale(began), scale(length) - scale(0)
            canvas.rect(x, y, wide, 19, PARTS[part], tip=f"{answer.method}: {part} {length:.1f} ms", name=part)
            if wide > 26:
                canvas.text(x + wide / 2, y + 14, f"{length:.1f}", anchor="middle", fill=paint(f"on-{part}"))
            began += length
    return canvas


def cell_map(view: LabView, answer: MethodResult) -> Canvas:
    """Draw a map of the cell: a disc per device of the cohort, its area the share of the band."""
    side = 300.0
    canvas = Canvas(WIDTH, side, f"Map of the cell under {answer.method}", captions.infeasible_text(view, answer))
    x_m, y_m = view.population.x_m, view.population.y_m
    reach = max(float(np.hypot(x_m, y_m).max()), 1.0)
    scale = (side / 2 - 14) / reach
    x, y = WIDTH / 2 + scale * x_m, side / 2 - scale * y_m
    rings = {radius: radius * scale for radius in Scale(0.0, 1.0, 1.02 * reach).ticks(4)[1:]}
    for radius in rings.values():
        canvas.circle(WIDTH / 2, side / 2, radius, "none", stroke=GRID)
    others = np.setdiff1d(np.arange(len(x)), view.devices)
    canvas.dots(zip(x[others].tolist(), y[others].tolist(), strict=True), 2.0, IDLE)
    for n, device in enumerate(view.devices.tolist()):
        radius, colour = _disc(view, answer, n)
        canvas.circle(x[device], y[device], radius, colour, tip=describe(view, answer, n), stroke=PAPER)
    for metres, radius in rings.items():
        canvas.text(WIDTH / 2 + 3, side / 2 - radius + 11, format(metres, "length", 3), size=9)
    canvas.parts.append(f'<path d="M{WIDTH / 2} {side / 2 - 9} l8 15 h-16 z" fill="{INK}"/>')      # the base station
    return canvas


def _disc(view: LabView, answer: MethodResult, n: int) -> tuple[float, str]:
    if answer.plan is None:
        return 6.0, CRITICAL if n in answer.stuck else IDLE
    share = float(part_of_band(answer.plan, view.problem.bandwidth_hz)[n])
    return 3.0 + 46.0 * np.sqrt(share / np.pi), CRITICAL if n == answer.limiting_device else PARTS["upload"]


def sheet(view: LabView) -> str:
    """Return all charts on one page as SVG, for download."""
    page = Canvas(2 * WIDTH + 40, 0, "one round under two methods")
    bottom = 0.0
    for column, answer in enumerate(view.answers):
        x, y = 10 + column * (WIDTH + 20), 26.0
        time = format(answer.plan.round_s, "time") if answer.plan is not None else "no plan keeps every budget"
        page.text(x, 18, f"{answer.method}: {time}", size=14)
        for chart in (gantt(view, answer), band(view, answer), cell_map(view, answer), energy(view, answer)):
            page.parts.append(chart.svg(x, y, WIDTH))
            y += chart.height + 12
        bottom = max(bottom, y)
    means = latency(view)
    page.parts.append(means.svg(10, bottom, WIDTH))
    page.height = bottom + means.height + 10
    page.parts.insert(0, f'<rect width="{page.width:g}" height="{page.height:g}" fill="{PAPER}"/>')
    return fixed(page.svg())


def parts_ms(plan: Plan) -> tuple[float, float, float]:
    """Return mean compute, upload and waiting time in ms; they add up to the round."""
    compute, upload = 1e3 * float(plan.compute_s.mean()), 1e3 * float(plan.upload_s.mean())
    return compute, upload, 1e3 * plan.round_s - compute - upload


def describe(view: LabView, answer: MethodResult, n: int) -> str:
    gain = format(float(view.problem.gain[n]), "gain")
    said = f"device {view.devices[n]}, {view.distance_m[n]:.0f} m away, gain {gain}"
    if answer.plan is None:
        return f"{said}: can't keep its budget" if n in answer.stuck else said
    plan = answer.plan
    band, clock = (format(float(values[n]), "frequency", 3) for values in (plan.bandwidth_hz, plan.cpu_hz))
    start, end = (format(float(values[n]), "time") for values in (plan.start_s, plan.end_s))
    return f"{said}: {band} from {start} to {end}, CPU at {clock}"


def _work(canvas: Canvas, scale: Scale, row: Row, ms: Floats, name: str, *, outlined: bool) -> None:
    """Draw the bars of one device; ``ms`` are its compute time, upload start, upload time and the round time."""
    (y, height), (compute, start, upload, whole) = row, ms.tolist()
    outline = {"stroke": CRITICAL} if outlined else {}
    tip = f"{name}, computes {compute:.1f} ms, uploads {upload:.1f} ms, waits {whole - compute - upload:.1f} ms"
    with canvas.group(tip + (", sets the pace" if outlined else "")):
        for part, t0, t1 in (("compute", 0.0, compute), ("wait", compute, start), ("upload", start, start + upload),
                             ("wait", start + upload, whole)):
            if part != "wait":
                canvas.rect(scale(t0), y, scale(t1) - scale(t0), height, PARTS[part], name=part, **outline)
            elif t0 > compute or scale(t1) - scale(t0) > 0.1:
                canvas.rect(scale(t0), y + height / 3, scale(t1) - scale(t0), height / 3, PARTS[part], name=part)


def _end(canvas: Canvas, scale: Scale, round_ms: float) -> None:
    x = scale(round_ms)
    canvas.line(x, 20, x, canvas.height - 34, CRITICAL, f"the round ends after {round_ms:.1f} ms, with the last upload",
                stroke_width="1.5", stroke_dasharray="4 3")


def _bars(view: LabView, counts: str, most: float) -> tuple[Canvas, dict[int, Row], Scale]:
    """Return an empty bar chart of the cohort, the slowest device on top: canvas, rows by position, scale."""
    shown = view.order[:MOST_ROWS].tolist()
    canvas, rows, scale = _rows([f"device {view.devices[n]}" for n in shown], counts, most)
    if len(view.devices) > MOST_ROWS:
        canvas.text(WIDTH - 12, 12, f"the {MOST_ROWS} slowest of {len(view.devices)}", anchor="end", fill=SOFT, size=10)
    return canvas, {n: rows[place] for place, n in enumerate(shown)}, scale


def _rows(names: Sequence[str], counts: str, most: float) -> tuple[Canvas, dict[int, Row], Scale]:
    pitch = 20.0 if len(names) <= 12 else 11.0
    canvas = Canvas(WIDTH, 60.0 + max(pitch * len(names), 60.0), f"Bars, a row a device: {counts}")
    scale = Scale(LEFT, WIDTH - 12, 1.02 * most or 1.0)
    axis(canvas, scale, 20, canvas.height - 34, counts)
    rows = {place: (23.0 + pitch * place, pitch - 4.0) for place in range(len(names))}
    for place, (y, height) in rows.items():
        canvas.text(LEFT - 6, y + height / 2 + 3.5, names[place], anchor="end", size=10 if pitch > 12 else 8)
    return canvas, rows, scale


def _without_plan(canvas: Canvas, answer: MethodResult, rows: dict[int, Row]) -> Canvas:
    """Mark the devices that make the method infeasible."""
    for n in answer.stuck:
        if n in rows:
            y, height = rows[n]
            canvas.text(LEFT + 6, y + height / 2 + 3.5, "can't keep its budget", fill=CRITICAL, size=10)
    return canvas

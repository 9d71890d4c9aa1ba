"""Slow motion: a page that plays back the trace of a simulated round."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import numpy as np

from netsim.allocation.planner import Wave
from netsim.base.pluralize import pluralize
from netsim.base.units import format
from netsim.lab.round_model import LabView, MethodResult
from netsim.lab.svg import LIGHT, paint
from netsim.server.replay import play_wave
from netsim.trace.schema import SERVER

MOST_DEVICES = 40           # rows that one can follow: the slowest


def player(view: LabView) -> str:
    """Return a self-contained page that plays all answers with a plan side by side."""
    reach_m = float(np.hypot(view.population.x_m, view.population.y_m).max())
    data = {"rounds": [playback(view, answer) for answer in view.answers if answer.plan is not None],
            "colours": {name: paint(name) for name in LIGHT}, "reach_m": max(reach_m, 1.0)}
    page = files("netsim.lab").joinpath("playback.html").read_text(encoding="utf-8")
    style = files("netsim.lessons").joinpath("lessons.css").read_text(encoding="utf-8")      # light and dark
    text = json.dumps(data).replace("<", r"\u003c")          # nothing in the data may end the script element
    return page.replace("/* lessons.css */", style).replace(
        'type="application/json">{}<', f'type="application/json">{text}<')


def playback(view: LabView, answer: MethodResult) -> dict[str, Any]:
    """Return the trace of a round as the page's data: milliseconds, spans by device, and captions."""
    assert answer.plan is not None
    rows = play_wave(Wave(view.devices, view.problem, answer.plan)).rows      # discrete-event simulation
    shown = view.devices[view.order[:MOST_DEVICES]].tolist()
    spans: dict[int, list[dict[str, Any]]] = {device: [] for device in shown}
    start = f"the server gives {pluralize(len(view.devices), 'device')} band and CPU frequency; all start to compute"
    events = [{"t": 0.0, "text": start}]
    bandwidth_hz = dict(zip(view.devices.tolist(), answer.plan.bandwidth_hz.tolist(), strict=True))
    waits = {device for name, device in zip(rows["name"], rows["device"], strict=True) if name == "wait"}
    for kind, name, device, t0, t1 in zip(*(rows[key] for key in ("kind", "name", "device", "t0", "t1")), strict=True):
        if kind != "span":
            continue
        if device in spans:
            spans[device].append({"name": name, "t0": 1e3 * t0, "t1": 1e3 * t1})
        hertz = 0.0 if name == "compute" and device in waits else bandwidth_hz.get(device, 0.0)
        events.append({"t": 1e3 * t1, "text": caption(name, device, t1, hertz, fixed=answer.plan.slots is None)})
    x_m, y_m = view.population.x_m, view.population.y_m
    return {
        "method": answer.method, "round_ms": 1e3 * answer.plan.round_s,
        "events": sorted(events, key=lambda event: event["t"]),
        "devices": [{"number": device, "at": [float(x_m[device]), float(y_m[device])], "spans": spans[device]}
                    for device in shown],
    }


def caption(name: str, device: int, t: float, bandwidth_hz: float, *, fixed: bool = True) -> str:
    """Return the caption of the end of a span; a device without bandwidth has to wait."""
    clock = format(t, "time")
    if device == SERVER:
        return f"{clock}: the last upload is in; the server makes the new global model"
    if name == "compute" and not bandwidth_hz:
        return f"{clock}: device {device} has its model, and waits for its turn"
    if name == "wait":
        return f"{clock}: it is the turn of device {device}; it sends on {format(bandwidth_hz, 'frequency', 3)}"
    if name == "compute":
        return f"{clock}: device {device} has its model and starts to send it on {format(bandwidth_hz, 'frequency', 3)}"
    return f"{clock}: the model of device {device} has arrived" + ("; its band lies idle from now on" if fixed else "")

"""A run, or several, as one HTML page that needs nothing but itself: no network, no other file."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from netsim.analysis.breakdown import long_first_round
from netsim.base import units
from netsim.base.errors import InputError
from netsim.base.files import read_text, replace_text
from netsim.report.comparison_data import MOST_BYTES, SCENARIO, comparison_data, labels_of
from netsim.report.run_data import run_data
from netsim.run import Run

# id of a chart, key of its data, heading, explanation
CHARTS = (
    ("latency", "breakdown", "Where the time of each round went",
     "Means over the devices that took part; the parts add up to the round’s time. A click on a bar opens its round."),
    ("gantt", "gantt", "A round, device by device", "What each device did over time. The outlined device limits the "
     "round: raising one of its limits would shorten the round most. netsim found this by planning the round again."),
    ("timeline", "gantt", "The whole run", "Wheel, two fingers or + and − zoom, dragging moves; 0 shows all again."),
    ("accuracy-rounds", "accuracy", "Accuracy against rounds", ""),
    ("accuracy-seconds", "accuracy", "Accuracy against simulated time", ""),
    ("accuracy-joules", "accuracy", "Accuracy against energy", "Energy of all devices up to then."),
    ("staleness", "staleness", "Staleness of updates", "Number of updates by their staleness: the number of new models "
     "between the start of a job and its arrival. The dashed line is the mean."),
    ("delivered", "delivered", "Updates per device", "Devices from the fastest to the slowest, by their planned job "
     "time; devices that never started a job are not shown."),
    ("map", "map", "The cell", "The base station is in the middle."),
    ("budgets", "budgets", "Energy against budget", "Mean energy of a device in a round (bars), its largest (dots) and "
     "its budget (lines)."),
    ("spectrum", "band", "Band in use over time", "The dashed line is the whole band."),
    ("band", "breakdown", "Band in use, round by round", "Allocated share of bandwidth times time."),
    ("batteries", "batteries", "Batteries over time",
     "Share of the battery that is left; for nearly full batteries, the share taken."),
    ("clusters", "clusters", "Clusters and classes", "Devices in each cluster, by their most frequent class."),
    ("classes", "classes", "Classes of each device", "Training samples of each class; darker means more. Devices "
     "are sorted by cluster, if there are clusters."),
)
COMPARED = (
    ("compare-latency", "Where the time went", "Mean over the rounds; the parts add up to the mean round time."),
    ("compare-energy", "Energy", "All devices, whole run."),
    ("compare-accuracy-seconds", "Accuracy against simulated time", ""),
    ("compare-accuracy-joules", "Accuracy against energy", "Energy of all devices up to then."),
    ("compare-updates", "Aggregated updates against simulated time", ""),
    ("compare-spent", "Energy against simulated time", "Energy of all devices up to then."),
    ("compare-done", "Finished rounds against simulated time", ""),
    ("compare-accuracy-rounds", "Accuracy against rounds", ""),
    ("compare-times", "Time of each round", ""),
    ("compare-band", "Band in use, round by round", ""),
)
LONGEST_TEXT = 50_000        # characters of a scenario
SCRIPTS = ("draw.js", "rounds.js", "sweep.js", "page.js")     # one after the other, in one function


def write_report(runs: Sequence[Run], path: Path) -> None:
    """Write the page about one run, or the page that compares several."""
    page = run_page(runs[0]) if len(runs) == 1 else comparison_page(runs)
    try:
        replace_text(path, page)
    except OSError as error:
        raise InputError("unwritable", str(path), error.strerror or str(error)) from None


def run_page(run: Run) -> str:
    """Return the page about one run as HTML."""
    data = run_data(run)
    notes = data["notes"]
    interrupted = "" if run.info["status"] == "finished" else f"; <b>interrupted after round {run.last_round}</b>"
    body = [
        f"<h1>{escape(str(run.info['scenario']))}</h1>",
        f"<p class=lead>{escape(run.scenario.description)}</p>",
        f"<p class=sub>changed: {escape(', '.join(run.changed))}</p>" if run.changed else "",
        f"<p class=sub>{methods(run)}; seed {escape(str(run.info['seed']))}{interrupted}</p>",
        '<div class="figures">',
        *(f"<div><b>{escape(value)}</b>{name}</div>" for name, value in headlines(data)), "</div>",
        *([f"<p class=sub>The first round: {escape(said)}.</p>"] if (said := long_first_round(run)) else []),
        device_time(data["breakdown"]),
        "<section><h2>Critical path</h2><p>The critical path is the chain of causes from the first selection to "
        f"the last aggregation; it is as long as the run, {units.duration(data['path']['length_s'])}.</p>",
        *(f"<p>{escape(sentence)}</p>" for sentence in data["path"]["advice"]),
        '<div class="pair"><div id="causes"></div><div id="slack"></div></div></section>',
        '<div class="charts">',
        *(chart(name, title, text, notes.get(name, "")) for name, key, title, text in CHARTS if key in data),
        "</div>",
        f'<section><h2>Devices</h2><p class=note>{escape(notes.get("table", ""))}</p>'
        '<div id="devices" class="scroll"></div></section>',
        f"<section><details><summary>The scenario</summary><pre>{escape(scenario_text(run))}</pre></details>",
        "<details><summary>Where this comes from</summary>"
        f"<pre>{escape(json.dumps(run.info, indent=2))}</pre></details></section>",
    ]
    return page(run.title, body, data)


def headlines(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the figures at the top of a page about one run."""
    totals = data["breakdown"]["totals"]
    yield "rounds", f"{totals['rounds']:,}"
    yield "simulated time", units.duration(totals["makespan_s"])
    yield "a round, on average", units.duration(totals["makespan_s"] / totals["rounds"])
    shares = [share for share in data.get("accuracy", {}).get("accuracy", ()) if share is not None]
    if shares:
        yield "accuracy at the end", f"{shares[-1]:.2%}"
    yield "energy", units.format(totals["energy_j"], "energy")
    yield "band in use", f"{totals['band_used']:.1%}"
    if "idle_j" in totals:
        yield "drawn when idle", units.format(totals["idle_j"], "energy")
        yield "charged", units.format(totals["harvest_j"], "energy")
        yield "lost with full batteries", units.format(totals["spilt_j"], "energy")
    if totals["dropped"]:
        yield "devices dropped out", f"{totals['dropped']:,}"


def device_time(breakdown: dict[str, Any]) -> str:
    """Return a bar with the parts of a device's mean time, and the parts in words."""
    totals = breakdown["totals"]
    parts = {part: totals[f"{part}_s"] / (totals["makespan_s"] or 1.0) for part in breakdown["parts"]}
    bar = "".join(f'<span class="{part}" style="flex-grow:{share}" title="{part} {share:.1%}"></span>'
                  for part, share in parts.items())
    words = ", ".join(f'<i class="{part}"></i>{part} {share:.1%}' for part, share in parts.items())
    return f'<section><h2>A device’s time, on average</h2><div class="shares">{bar}</div><p>{words}</p></section>'


def comparison_page(runs: Sequence[Run]) -> str:
    """Return the page that compares runs as HTML."""
    labels = labels_of(runs)
    data = comparison_data(runs, labels)
    trained = any(run["accuracy"] for run in data["runs"])
    notes = data["notes"]
    body = [
        "<h1>Runs side by side</h1>",
        f"<p class=lead>{escape(', '.join(labels))}</p>",
        *(f"<p class=sub>{escape(label)}: {escape(run.title)}</p>" for label, run in zip(labels, runs, strict=True)),
        f"<p class=warning>{escape(notes['world'])}</p>" if "world" in notes else
        "<p class=sub>The same devices, at the same places, from the same seed.</p>",
        f'<div class="pair{" many" if len(runs) > 2 else ""}">',
        '<section><h2>What was changed</h2><p>Scenario keys with different values.</p>'
        if data["changed"] else "<section><h2>What was changed</h2><p>Nothing: the scenarios are the same.</p>",
        f'<div id="changed" class="scroll"></div><p class=note>{escape(notes.get("changed", ""))}</p></section>',
        '<section><h2>In numbers</h2><div id="comparison" class="wide"></div></section>',
        "</div>",
        '<section><h2>The same round, device by device</h2><p>All charts have the same time scale. The outlined device '
        "limits the round: raising one of its limits would shorten the round most.</p>"
        '<div class="controls" id="compare-gantts-controls"></div><div class="pair">',
        *(side(at, escape(label)) for at, label in enumerate(labels[:len(data["gantts"])])),
        f'</div><p class=note>{escape(notes.get("gantts", ""))}</p></section>',
        '<div class="charts">',
        *(chart(name, title, text, notes.get("times", "") if name in ("compare-times", "compare-band") else "")
          for name, title, text in COMPARED if trained or "accuracy" not in name),
        "</div>",
    ]
    return page("runs side by side", body, data)


def side(at: int, label: str) -> str:
    """Return the element for one run's round beside those of the others."""
    name = f"compare-gantt-{at}"
    return (f'<div><h3><i style="border-color:var(--g{at})"></i>{label}</h3>'
            f'<div class="chart" id="{name}" data-name="A round of {label}"></div>'
            f'<div class="said" id="{name}-said"></div></div>')


def chart(name: str, title: str, text: str, note: str) -> str:
    """Return the element that the script fills with a chart."""
    return (f'<section class="card"><h2>{title}</h2><p>{text}</p><div class="controls" id="{name}-controls"></div>'
            f'<div class="chart" id="{name}"></div><div class="said" id="{name}-said"></div>'
            f"<p class=note>{escape(note)}</p></section>")


def methods(run: Run) -> str:
    """Return the methods of selection, allocation and aggregation in words."""
    selection, allocation, server = run.scenario.selection, run.scenario.allocation, run.scenario.server
    cohorts = (f"cohorts of {selection.cohort} by <b>{escape(selection.method)}</b>" if run.app is None
               else f"cohorts and learning by the app <b>{escape(run.app)}</b>")
    aggregated = f"; server <b>{escape(server.kind)}</b>" if server else ""
    return f"{cohorts}, band and power by <b>{escape(allocation.method)}</b>{aggregated}"


def scenario_text(run: Run) -> str:
    """Return the scenario with all defaults, cut after LONGEST_TEXT characters."""
    text = read_text(run.path / SCENARIO, "a scenario", MOST_BYTES)
    return text if len(text) < LONGEST_TEXT else text[:LONGEST_TEXT] + "\n… (the rest is in scenario.toml)\n"


def page(title: str, body: list[str], data: dict[str, Any]) -> str:
    """Return a whole page; each part of the data has an element of its own, such as ``data-breakdown``.

    The security policy allows only the script of the page, and no requests.
    """
    style, *scripts = (files("netsim.report").joinpath(name).read_text(encoding="utf-8")
                       for name in ("page.css", *SCRIPTS))
    script = "\n".join(['"use strict";', "(() => {", *scripts, "})();"])
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{allowed}'; style-src 'unsafe-inline'"
    return "\n".join([
        "<!doctype html>", '<html lang="en">', "<head>", '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escape(title)}</title>", f"<style>{style}</style>", "</head>", "<body>", "<main>", *body, "</main>",
        *(f'<script type="application/json" id="data-{name}">{as_json(part)}</script>' for name, part in data.items()),
        f"<script>{script}</script>", "</body>", "</html>", "",
    ])


def as_json(part: Any) -> str:
    """Return data as JSON for a script element; an unescaped "<" in a name could close the element.

    Numbers that are not finite become null, such as the loss of a diverged model.
    """
    numbers = json.loads(json.dumps(part), parse_constant=lambda _: None)
    return json.dumps(numbers, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")

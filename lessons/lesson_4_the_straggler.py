# /// script
# [tool.marimo.display]
# theme = "system"      # light or dark, as the reader's screen is
# ///
"""Lesson 4: who sets the pace of a whole run."""

import marimo

app = marimo.App(width="medium", app_title="4. The straggler", css_file="lessons.css")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from netsim import load_scenario, simulate
    from netsim.lab.charts import timeline
    from netsim.lab.widgets import controls, slider

    return controls, load_scenario, mo, simulate, slider, timeline


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    # 4. The straggler and the critical path

    Twelve phones and **one** old sensor with a slow CPU, far from the base station. Every round takes eight of them at
    random. The simulation is the real one, event by event; it leaves a trace that says what waited for what. The
    longest chain in it, the **critical path**, is exactly as long as the run: whatever is not on it could take longer
    without anybody noticing.
    """)
    return


@app.cell(hide_code=True)
def _(controls, mo, slider):
    clock = slider("highest clock of the sensor (GHz)", [0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0], 0.3)
    place = slider("distance of the sensor (m)", range(50, 310, 10), 280)
    method = mo.ui.dropdown(["equal", "sao"], value="equal", label="allocation")
    controls(clock, place, row=[method])
    return clock, method, place


@app.cell(hide_code=True)
def _(clock, load_scenario, method, place, simulate):
    import tempfile
    from pathlib import Path

    text = f"""
    base = "lab"

    [[population]]
    name = "phone"
    count = 12
    budget = "30 mJ"

    [[population]]
    name = "sensor"
    places = [["{place.value} m", "0 m"]]
    cpu = {{ min = "0.05 GHz", max = "{clock.value} GHz", cycles_per_sample = 2e4 }}
    radio = {{ power = "23 dBm" }}
    budget = "30 mJ"

    [selection]
    cohort = 8

    [allocation]
    method = "{method.value}"
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "straggler.toml"
        file.write_text(text, encoding="utf-8")
        run = simulate(load_scenario(file), seed=1, learning=False)
    return (run,)


@app.cell(hide_code=True)
def _(mo, run, slider):
    path = run.critical_path()
    explained = run.explain(methods=False)
    which = slider("round", range(1, run.last_round + 1), explained.round)
    mo.vstack([
        mo.md(" ".join([f"Ten rounds took **{1e3 * path.length_s:.0f} ms**.",
                        *(f"{said[0].upper()}{said[1:]}" for said in path.advice())])),
        which,
    ])
    return explained, path, which


@app.cell(hide_code=True)
def _(mo, price, run, timeline, which):
    _took_part, _found = run.breakdown().round(which.value), run.explain(which.value, methods=False)
    _device = _found.best.device if _found.best else None
    _names = dict(zip(_took_part["device"], _took_part["name"], strict=True))
    mo.vstack([
        mo.Html(timeline(_took_part["name"], _took_part["compute_s"], _took_part["upload_s"],
                         _took_part["round_s"][0], pace=_names.get(_device)).svg()),
        mo.md(price(_found)),
    ])
    return


@app.cell(hide_code=True)
def _():
    def price(found):
        """Which limit holds a round up, and what more of it would bring."""
        _held = found.binding[0]
        _what = {"cpu_max": "clock", "budget": "budget", "power": "power", "bandwidth": "band"}[_held.limit]
        _whose = "the cell's" if _held.device is None else f"{_held.name}'s"
        _said = (f"**What a little more is worth:** the next per cent of {_whose} {_what} shortens this round by "
                 f"{1e3 * _held.next_s:.2f} of {1e3 * found.round_s:.0f} ms.")
        _best = found.best
        return _said if _best is None else (
            f"{_said} What would help most: {_best.change}, {1e3 * _best.saves_s:.0f} ms shorter.")

    return (price,)


@app.cell(hide_code=True)
def _(explained, mo, path):
    _path = "| on the critical path | part | in rounds | share of the run |\n|:---|:---|---:|---:|\n" + "\n".join(
        f"| {row['device_name']} | {row['part']} | {row['rounds']} | {row['share_of_time']:.0%} |"
        for row in path.causes.head(6).iter_rows(named=True))
    _changes = "| all rounds planned and played again with | take | shorter by |\n|:---|---:|---:|\n" + "\n".join(
        f"| {row.change} | {1e3 * row.round_s:.0f} ms | {1e3 * row.saves_s:.0f} ms |"
        for row in explained.whole.what_if[:6])
    mo.md(f"{_changes}\n\n{_path}")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("## Questions")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.accordion({
        "Under equal shares, what would help more: a faster CPU for the sensor, or a better place?": mo.md("""
        The CPU. With a clock of 0.3 GHz its **compute** is on the path in every round in which it takes part, and
        twice the clock makes the ten rounds 833 ms shorter. Move the two sliders: a faster clock shortens the run until
        another device becomes the last, and from then on its clock is worth nothing. A better place only shortens the
        few milliseconds in which it sends.
        """),
        "Switch to SAO. All devices of a round end together. Can nobody be blamed?": mo.md("""
        The ends of the bars do not tell: SAO hands the band from one to the other until all end at the same moment, so
        each of them is on some longest chain, and the path names whom it likes. What tells is the **price**: what
        a little more of a limit is worth. The sensor computes 333 of the 336 ms of round 5, and the next per cent of
        its clock makes that round 3.3 ms shorter, a hundred and fifty times what the next per cent of the band does. So
        the sensor sets the pace, though it ends with all the others. Try it: with a clock of 0.8 GHz the ten rounds
        take 1168 ms instead of 2207. In rounds without the sensor no single one holds up the others, and more band or
        a larger budget brings a few milliseconds.
        """),
        "A hundred phones and one such sensor, ten in each round: how often does it hold up the others?": mo.md("""
        In one of ten, about. The chance that a given device is among ten of 101 is 10/101. But if **every** device has
        a bad day in one of a hundred rounds, a cohort of ten meets one in every tenth round, and a cohort of a hundred
        in two of three: $1 - 0.99^{100} = 63\\,\\%$. Large cohorts wait for somebody nearly always.
        """),
    })
    return


if __name__ == "__main__":
    app.run()

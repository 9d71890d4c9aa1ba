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
    longest = run.rounds.sort("round_s", descending=True)["round"][0]
    which = slider("round", range(1, run.last_round + 1), longest)
    path = run.critical_path()
    mo.vstack([
        mo.md(" ".join([f"Ten rounds took **{1e3 * path.length_s:.0f} ms**.",
                        *(f"{said[0].upper()}{said[1:]}" for said in path.advice())])),
        which,
    ])
    return path, which


@app.cell(hide_code=True)
def _(mo, run, timeline, which):
    took_part = run.breakdown().round(which.value)
    mo.Html(timeline(took_part["name"], took_part["compute_s"], took_part["upload_s"], took_part["round_s"][0]).svg())
    return


@app.cell(hide_code=True)
def _(mo, path):
    _head = "| on the path | part | in rounds | share of the run | would save at most |\n|---|---|---|---|---|\n"
    mo.md(_head + "\n".join(
        f"| {row['device_name']} | {row['part']} | {row['rounds']} | {row['share_of_time']:.0%} "
        f"| {1e3 * row['gain_s']:.0f} ms |" for row in path.causes.head(6).iter_rows(named=True)))
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("## Questions")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.accordion({
        "Under equal shares, what would help more: a faster CPU for the sensor, or a better place?": mo.md("""
        With a clock of 0.3 GHz its **compute** is on the path in every round in which it takes part. Move the two
        sliders: a faster clock shortens the run until another device becomes the last. That is why "would save at
        most" is less than the time that the sensor spends on the path.
        """),
        "Switch to SAO. Why does the table now name many devices, and why can no single one be blamed?": mo.md("""
        SAO lets all devices of a round end together, so each of them is on some longest chain. A round without a
        straggler can only be shortened by more band, larger budgets, or another cohort. With a very slow sensor even
        SAO has to wait: no band makes a CPU faster.
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

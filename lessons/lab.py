# /// script
# [tool.marimo.display]
# theme = "system"      # light or dark, as the reader's screen is
# ///
"""The lab: one round of one cohort, one slider at a time. Opened by `netsim lab`."""

import marimo

app = marimo.App(width="full", app_title="netsim lab", css_file="lessons.css")


@app.cell(hide_code=True)
def _():
    from html import escape

    import marimo as mo

    from netsim.allocation import METHODS
    from netsim.cell.schedulers import SCHEDULERS
    from netsim.lab import charts
    from netsim.lab.captions import headline, verdict
    from netsim.lab.formulas import device_formulas
    from netsim.lab.lesson import titles
    from netsim.lab.playback import player
    from netsim.lab.round_model import look
    from netsim.lab.settings import Settings
    from netsim.lab.widgets import between, controls, dropdown, number, side_by_side, slider

    return (
        SCHEDULERS, METHODS, Settings, between, charts, controls, device_formulas, dropdown, escape, headline,
        look, mo, number, player, side_by_side, slider, titles, verdict,
    )


@app.cell(hide_code=True)
def _(METHODS, mo):
    mo.md("""
    # Why does one device hold up all the others?

    A round of federated learning ends when the **last** upload has arrived. Move a slider and see which device is last.
    Both methods have the same devices, at the same places, with the same work.
    """ + f"""
    **sao** divides the band, and chooses each CPU's clock, so that the round is as short as the energy budgets allow:
    all devices finish together, unless one has to spare energy or is as fast as it can be. **equal** gives every
    device the same share of the band. The numbers of the round show what the difference is worth.

    <details><summary>What each method does</summary>

    {chr(10).join(f"    - **{_name}**: {_entry.summary}" for _name, _entry in METHODS.items()).strip()}

    </details>
    """)
    return


@app.cell(hide_code=True)
def _(SCHEDULERS, METHODS, Settings, between, controls, dropdown, number, slider):
    start = Settings()

    bandwidth = slider("bandwidth (MHz)", [*range(1, 10), *range(10, 42, 2), 50, 60, 80, 100], start.bandwidth_mhz)
    power = slider("transmit power (dBm)", range(31), start.power_dbm)
    budget = between("energy budget (mJ)", [2, 5, 8, *range(10, 61), 70, 80, 100, 150, 200], start.budget_mj)
    cohort = slider("cohort size", [*range(1, 21), *range(22, 51, 2), *range(55, 101, 5)], start.cohort)
    sizes = [10, 20, 50, *range(100, 401, 50), 448, 500, *range(600, 1001, 100), 1500, 2000, 3640]
    model = slider("model size (kbit)", sizes, start.model_kbit)
    cpu = between("CPU range (GHz)", [round(0.1 * tenths, 1) for tenths in range(1, 41)], start.cpu_ghz)
    left = dropdown("left", METHODS, start.methods[0])
    right = dropdown("right", METHODS, start.methods[1])
    sharing = dropdown("the band is shared", SCHEDULERS, start.sharing)
    seed = number("draw", 0, 9999, start.seed)
    controls(bandwidth, power, budget, cohort, model, cpu, row=[left, right, sharing, seed])
    return bandwidth, budget, cohort, cpu, left, model, power, right, seed, sharing


@app.cell(hide_code=True)
def _(
    Settings, bandwidth, budget, charts, cohort, cpu, headline, left, look, mo, model, power, right, seed, sharing,
    side_by_side, verdict,
):
    settings = Settings(
        bandwidth_mhz=bandwidth.value, power_dbm=power.value, budget_mj=tuple(budget.value), cohort=cohort.value,
        model_kbit=model.value, cpu_ghz=tuple(cpu.value), seed=seed.value or 0, methods=(left.value, right.value),
        sharing=sharing.value)
    view = look(settings.scenario(), settings.methods, settings.seed)
    explained = f"""<p>{verdict(view)}</p><p>The bars are means over the cohort: the time of an average device for
    computing, sending and waiting. Below each round is the band over time; white areas are unused. On the maps, the
    area of a disc is a device's share of the band. Red marks the device that limits the round: the others wait for it,
    or, if all finish together, raising its clock or budget would shorten the round more than a wider band.</p>"""

    # one output for all pictures, so that a slider redraws them in one go
    mo.Html(
        side_by_side(headline(view, answer) + charts.gantt(view, answer).svg() + charts.band(view, answer).svg()
                     for answer in view.answers)
        + side_by_side([charts.latency(view).svg(), explained])
        + side_by_side(
            charts.cell_map(view, answer).svg() + charts.energy(view, answer).svg() for answer in view.answers)
    )
    return settings, view


@app.cell(hide_code=True)
def _(Settings, charts, cohort, look, mo, seed):
    # depends on the cohort only: moving other sliders keeps these controls and the chosen device
    slowest = "the slowest"
    _drawn = Settings(cohort=cohort.value, seed=seed.value or 0)
    _devices = look(_drawn.scenario(), (), _drawn.seed).devices
    device = mo.ui.dropdown([slowest, *(str(_number) for _number in _devices)], value=slowest, label="device")
    slow_motion = mo.ui.switch(label="play the round in slow motion, event by event")
    shown = {}
    files = mo.hstack([
        mo.download(lambda: charts.sheet(shown["view"]).encode(), "round.svg", "image/svg+xml",
                    label="the picture (SVG)"),
        mo.download(lambda: shown["settings"].scenario_file().encode(), "my-lab.toml", "application/toml",
                    label="the scenario (TOML)"),
    ], justify="start")
    return device, files, shown, slow_motion, slowest


@app.cell(hide_code=True)
def _(
    charts, device, device_formulas, escape, files, mo, player, settings, shown, side_by_side, slow_motion, slowest,
    view,
):
    shown.update(settings=settings, view=view)
    _n = int(view.order[0] if device.value == slowest else view.devices.tolist().index(int(device.value)))
    _formulas = side_by_side(
        f"<b>{answer.method}</b>: {charts.describe(view, answer, _n)}"
        + mo.md(device_formulas(view.problem, answer.plan, _n)).text
        for answer in view.answers if answer.plan is not None)
    _played = ""
    if slow_motion.value:
        _frame = mo.iframe(player(view), height="760px").text if view.plans else "<p>There is no plan to play.</p>"
        _played = _frame.replace("<iframe ", '<iframe title="The round in slow motion" ', 1)
    mo.Html(f"""
        <h2>One device, by the formulas</h2> {device} {_formulas}
        <h2>Slow motion</h2> {slow_motion} {_played}
        <h2>Take it with you</h2> {files}
        <details><summary>The scenario that the sliders describe</summary>
        <pre>{escape(settings.scenario_file())}</pre></details>
    """)
    return


@app.cell(hide_code=True)
def _(mo, titles):
    mo.md("## Lessons\n\n" + "\n".join(
        f"{_number}. [{_title}](lesson-{_number}/)" for _number, _title in titles().items()))
    return


if __name__ == "__main__":
    app.run()

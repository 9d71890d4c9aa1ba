"""The lab: one round of one cohort, one slider at a time. Opened by `netsim lab`."""

import marimo

app = marimo.App(width="full", app_title="netsim lab", css_file="lessons.css")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from netsim.allocation import METHODS
    from netsim.lab import charts
    from netsim.lab.formulas import device_formulas
    from netsim.lab.player import player
    from netsim.lab.serve import lessons
    from netsim.lab.settings import Settings
    from netsim.lab.view import look, straggler
    from netsim.lab.widgets import between, controls, side_by_side, slider
    from netsim.lab.words import headline, verdict

    return (
        METHODS, Settings, between, charts, controls, device_formulas, headline, lessons, look, mo, player,
        side_by_side, slider, straggler, verdict,
    )


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    # Why does one device hold up all the others?

    A round of federated learning ends when the **last** upload is in. Move a slider and see who that is. Both methods
    get the same devices, at the same places, with the same work to do.
    """)
    return


@app.cell(hide_code=True)
def _(METHODS, Settings, between, controls, mo, slider):
    start = Settings()

    bandwidth = slider("bandwidth (MHz)", [*range(1, 10), *range(10, 42, 2), 50, 60, 80, 100], start.bandwidth_mhz)
    power = slider("transmit power (dBm)", range(31), start.power_dbm)
    budget = between("energy budget (mJ)", [2, 5, 8, *range(10, 61), 70, 80, 100, 150, 200], start.budget_mj)
    cohort = slider("cohort size", [*range(1, 21), *range(22, 51, 2), *range(55, 101, 5)], start.cohort)
    sizes = [10, 20, 50, *range(100, 401, 50), 448, 500, *range(600, 1001, 100), 1500, 2000, 3640]
    model = slider("model size (kbit)", sizes, start.model_kbit)
    cpu = between("CPU range (GHz)", [round(0.1 * tenths, 1) for tenths in range(1, 41)], start.cpu_ghz)
    left = mo.ui.dropdown(list(METHODS), value=start.methods[0], label="left")
    right = mo.ui.dropdown(list(METHODS), value=start.methods[1], label="right")
    seed = mo.ui.number(0, 9999, value=start.seed, label="draw")
    controls(bandwidth, power, budget, cohort, model, cpu, row=[left, right, seed])
    return bandwidth, budget, cohort, cpu, left, model, power, right, seed


@app.cell(hide_code=True)
def _(
    Settings, bandwidth, budget, charts, cohort, cpu, headline, left, look, mo, model, power, right, seed, side_by_side,
    verdict,
):
    settings = Settings(
        bandwidth_mhz=bandwidth.value, power_dbm=power.value, budget_mj=tuple(budget.value), cohort=cohort.value,
        model_kbit=model.value, cpu_ghz=tuple(cpu.value), seed=seed.value or 0, methods=(left.value, right.value))
    view = look(settings.scenario(), settings.methods, settings.seed)
    explained = f"""<p>{verdict(view)}</p><p>The bars are means over the cohort: an average device's time, computing,
    sending, and waiting for the last one. On the maps, the area of a disc is a device's share of the band; red is
    whom the others wait for.</p>"""

    # one output for all pictures, so that a slider redraws them in one go
    mo.Html(
        side_by_side(headline(view, answer) + charts.gantt(view, answer).svg() for answer in view.answers)
        + side_by_side([charts.latency(view).svg(), explained])
        + side_by_side(
            charts.cell_map(view, answer).svg() + charts.energy(view, answer).svg() for answer in view.answers)
    )
    return settings, view


@app.cell(hide_code=True)
def _(mo, straggler, view):
    numbers = [str(device) for device in view.devices]
    slowest = numbers[straggler(view.plans[0])] if view.plans else numbers[0]
    device = mo.ui.dropdown(numbers, value=slowest, label="device")
    mo.vstack([mo.md("## One device, by the formulas"), device])
    return (device,)


@app.cell(hide_code=True)
def _(device, device_formulas, mo, side_by_side, view):
    position = [str(number) for number in view.devices].index(device.value)
    mo.Html(side_by_side(
        f"<b>{answer.method}</b>{mo.md(device_formulas(view.problem, answer.plan, position)).text}"
        for answer in view.answers if answer.plan is not None))
    return


@app.cell(hide_code=True)
def _(mo):
    slow_motion = mo.ui.switch(label="play the round in slow motion, event by event")
    mo.vstack([mo.md("## Slow motion"), slow_motion])
    return (slow_motion,)


@app.cell(hide_code=True)
def _(mo, player, slow_motion, view):
    nothing = mo.md("There is no plan to play." if slow_motion.value else "")
    mo.iframe(player(view), height="620px") if slow_motion.value and view.plans else nothing
    return


@app.cell(hide_code=True)
def _(charts, mo, settings, view):
    mo.vstack([
        mo.md("## Take it with you"),
        mo.hstack([
            mo.download(lambda: charts.sheet(view).encode(), "round.svg", "image/svg+xml", label="the picture (SVG)"),
            mo.download(lambda: settings.scenario_file().encode(), "my-lab.toml", "application/toml",
                        label="the scenario (TOML)"),
        ], justify="start"),
        mo.accordion({"The scenario that the sliders describe": mo.plain_text(settings.scenario_file())}),
    ])
    return


@app.cell(hide_code=True)
def _(lessons, mo):
    def title(path):
        return path.stem.split("_", 2)[2].replace("_", " ")

    mo.md("## Lessons\n\n" + "\n".join(
        f"{number}. [{title(path)}](lesson-{number}/)" for number, path in enumerate(lessons(), start=1)))
    return


if __name__ == "__main__":
    app.run()

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
    from netsim.lab.words import headline, verdict

    return METHODS, Settings, charts, device_formulas, headline, lessons, look, mo, player, straggler, verdict


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    # Why does one device hold up all the others?

    A round of federated learning ends when the **last** upload is in. Move a slider and see who that is. Both methods get the same
    devices, at the same places, with the same work to do.
    """)
    return


@app.cell(hide_code=True)
def _(METHODS, Settings, mo):
    start = Settings()

    def slider(label, value, steps):
        return mo.ui.slider(steps=steps, value=value, label=label, show_value=True, full_width=True)

    def between(label, value, steps):
        return mo.ui.range_slider(steps=steps, value=list(value), label=label, show_value=True, full_width=True)

    bandwidth = slider("bandwidth (MHz)", start.bandwidth_mhz, [*range(1, 10), *range(10, 42, 2), 50, 60, 80, 100])
    power = slider("transmit power (dBm)", start.power_dbm, list(range(31)))
    budget = between("energy budget (mJ)", start.budget_mj, [2, 5, 8, *range(10, 61), 70, 80, 100, 150, 200])
    cohort = slider("cohort size", start.cohort, [*range(1, 21), *range(22, 51, 2), *range(55, 101, 5)])
    model = slider("model size (kbit)", start.model_kbit,
                   [10, 20, 50, *range(100, 401, 50), 448, 500, *range(600, 1001, 100), 1500, 2000, 3640])
    cpu = between("CPU range (GHz)", start.cpu_ghz, [round(0.1 * tenths, 1) for tenths in range(1, 41)])
    left = mo.ui.dropdown(list(METHODS), value=start.methods[0], label="left")
    right = mo.ui.dropdown(list(METHODS), value=start.methods[1], label="right")
    seed = mo.ui.number(0, 9999, value=start.seed, label="draw")
    mo.Html(
        '<div class="controls">'
        + "".join(f"<div>{element}</div>" for element in (bandwidth, power, budget, cohort, model, cpu))
        + f'<div class="row">{left}{right}{seed}</div></div>'
    )
    return bandwidth, budget, cohort, cpu, left, model, power, right, seed


@app.cell(hide_code=True)
def _(Settings, bandwidth, budget, cohort, cpu, left, look, model, power, right, seed):
    settings = Settings(
        bandwidth_mhz=bandwidth.value, power_dbm=power.value, budget_mj=tuple(budget.value), cohort=cohort.value,
        model_kbit=model.value, cpu_ghz=tuple(cpu.value), seed=seed.value or 0, methods=(left.value, right.value))
    view = look(settings.scenario(), settings.methods, settings.seed)
    return settings, view


@app.cell(hide_code=True)
def _(charts, headline, mo, verdict, view):
    def pair(draw):
        """The same for both methods, side by side where there is room."""
        return '<div class="pair">' + "".join(f"<div>{draw(answer)}</div>" for answer in view.answers) + "</div>"

    # one output for all pictures, so that a slider redraws them in one go
    mo.Html(
        pair(lambda answer: headline(view, answer) + charts.gantt(view, answer).svg())
        + f'<div class="pair"><div>{charts.latency(view).svg()}</div><div class="verdict"><p>{verdict(view)}</p>'
        "<p>The bars are means over the cohort: an average device's time, computing, sending, and waiting for the last "
        "one. On the maps, the area of a disc is a device's share of the band; red is whom the others wait for.</p></div></div>"
        + pair(lambda answer: charts.cell_map(view, answer).svg() + charts.energy(view, answer).svg())
    )
    return


@app.cell(hide_code=True)
def _(mo, straggler, view):
    numbers = [str(device) for device in view.devices]
    slowest = numbers[straggler(view.plans[0])] if view.plans else numbers[0]
    device = mo.ui.dropdown(numbers, value=slowest, label="device")
    mo.vstack([mo.md("## One device, by the formulas"), device])
    return (device,)


@app.cell(hide_code=True)
def _(device, device_formulas, mo, view):
    position = [str(number) for number in view.devices].index(device.value)
    mo.Html('<div class="pair formulas">' + "".join(
        f"<div><b>{answer.method}</b>{mo.md(device_formulas(view.problem, answer.plan, position)).text}</div>"
        for answer in view.answers if answer.plan is not None) + "</div>")
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
            mo.download(lambda: charts.sheet(view).encode(), filename="round.svg", mimetype="image/svg+xml", label="the picture (SVG)"),
            mo.download(lambda: settings.scenario_file().encode(), filename="my-lab.toml", mimetype="application/toml",
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

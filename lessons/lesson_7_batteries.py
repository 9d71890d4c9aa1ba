# /// script
# [tool.marimo.display]
# theme = "system"      # light or dark, as the reader's screen is
# ///
"""Lesson 7: many rounds, until batteries are empty."""

import marimo

app = marimo.App(width="medium", app_title="7. Batteries", css_file="lessons.css")


@app.cell(hide_code=True)
def _():
    import marimo as mo
    import polars as pl

    from netsim import load_scenario, simulate
    from netsim.lab.curves import lines
    from netsim.lab.widgets import controls, slider

    return controls, lines, load_scenario, mo, pl, simulate, slider


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    # 7. Batteries and drop-outs over many rounds

    A **budget** is what a device may spend in one round; a **battery** is what it has for all rounds. A plan never
    allows a device more than its battery still holds: near its end it computes slowly and gets more of the band. When
    what is left no longer pays for a job, the device stays out. The fleet: 16 phones, 8 small sensors, and 4 laptops on
    mains, on a channel that fades from round to round.
    """)
    return


@app.cell(hide_code=True)
def _(controls, mo, slider):
    battery = slider("battery of a sensor (mJ)", [2, 4, 6, 8, 12, 16, 24, 40], 12)
    phone = slider("battery of a phone (mJ)", [50, 100, 150, 200, 300, 500], 200)
    method = mo.ui.dropdown(["sao", "equal", "fedl"], value="sao", label="allocation")
    ways = ["fedavg", "round-robin", "fedcs", "proportional-fair"]
    choice = mo.ui.dropdown(ways, value="fedavg", label="selection")
    controls(battery, phone, row=[method, choice])
    return battery, choice, method, phone


@app.cell(hide_code=True)
def _(battery, choice, load_scenario, method, phone, simulate):
    run = simulate(load_scenario("mixed-fleet", [
        f"population.sensor.battery={battery.value} mJ", f"population.phone.battery={phone.value} mJ",
        f"allocation.method={method.value}", f"selection.method={choice.value}", "end.rounds=60",
    ]), seed=2, learning=False)
    return (run,)


@app.cell(hide_code=True)
def _(mo, pl, run):
    _charge = run.events.filter(pl.col("name") == "battery").join(
        run.devices.select(pl.col("device").cast(pl.Int32), "battery_j"), on="device")
    used_up = _charge.filter(pl.col("value") < 0.01 * pl.col("battery_j")).group_by("device").agg(pl.col("round").min())
    summary = run.summary
    mo.md(f"""
    **{summary['rounds']} rounds** in {summary['simulated_s']:.1f} s, with {1e3 * summary['energy_j']:.0f} mJ in all.
    **{used_up.height} devices** have used up their batteries, all but the last hundredth. {summary['dropped']} times a
    device was chosen for which there was no plan, since its battery, or its budget, did not pay for a job.
    """)
    return (used_up,)


@app.cell(hide_code=True)
def _(lines, mo, pl, run, used_up):
    _rounds = run.rounds["round"].to_list()
    _left = [run.devices.height - used_up.filter(pl.col("round") <= k).height for k in _rounds]
    mo.Html(lines(_rounds, {"devices that are left": _left, "uploads that arrive": run.rounds["arrived"],
                            "no plan for them": run.rounds["dropped"]}, across="round", up="devices").svg())
    return


@app.cell(hide_code=True)
def _(lines, mo, run):
    mo.Html(lines(run.rounds["round"], {"round time": 1e3 * run.rounds["round_s"]}, across="round", up="ms").svg())
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("## Questions")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.accordion({
        "The number of devices falls. What changes for those that are left?": mo.md("""
        They are chosen more often, so their batteries empty faster: the first to go pull the others after them. In the
        end only the laptops on mains are left, and the cohort is as small as they are few.
        """),
        "SAO is done sooner than equal shares, but spends more energy. Whose?": mo.md("""
        That of the near devices. With an equal share they send quickly, compute at their highest clock and end below
        their budget. SAO takes band away from them for those who are far, so they send for longer and spend the rest
        of their budget as well: the far ones' time is bought with the near ones' energy. Within the budget, energy
        costs nothing in SAO's problem; a battery knows better.
        """),
        "A phone with 5 mJ left and a budget of 30 mJ is chosen. What does the plan make of it?": mo.md("""
        It plans with 5 mJ: the phone computes slowly, which is cheap, and gets more of the band, so that it need not
        send for long. It arrives with the last of its energy, and the others wait a little for it: `netsim explain`
        names its battery among what holds the round up. Only if 5 mJ do not pay for the slowest clock does it stay
        out. Whether it should have been chosen at all is another question. A selection method of your own sees
        `view.battery_j`; the guide "Your own selection method" shows how to write one.
        """),
    })
    return


if __name__ == "__main__":
    app.run()

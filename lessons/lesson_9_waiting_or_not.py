# /// script
# [tool.marimo.display]
# theme = "system"      # light or dark, as the reader's screen is
# ///
"""Lesson 9: servers that wait for the slowest, and servers that do not."""

import marimo

app = marimo.App(width="medium", app_title="9. Waiting or not", css_file="lessons.css")


@app.cell(hide_code=True)
def _():
    import marimo as mo
    import polars as pl

    from netsim import load_scenario, simulate
    from netsim.lab.charts import schedule
    from netsim.lab.curves import lines
    from netsim.lab.widgets import controls, side_by_side, slider

    return controls, lines, load_scenario, mo, pl, schedule, side_by_side, simulate, slider


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # 9. Waiting or not

    A synchronous server waits for the slowest device of a round. **FedBuff** does not: whoever is done sends its update
    and starts again at once, and every $K$ updates make a new model. **FedAsync** makes one of every single update.
    **first-k** still goes in rounds, but ends each with the first $K$ who arrive; the others have worked in vain.

    While a device works, others may make new models. How many of them is the **staleness** $\tau$ of its update: it
    says how to improve a model that is no longer there. So it counts less, $s(\tau) = 1/\sqrt{1 + \tau}$.

    Ten phones, all at work, for two simulated seconds; dark lines are new models.
    """)
    return


@app.cell(hide_code=True)
def _(controls, mo, slider):
    spread = slider("most work over least work", [1, 1.5, 2, 3, 5, 10, 20, 30], 3)
    buffer = slider("updates that make a new model (K)", range(1, 11), 5)
    draw = slider("draw", range(51), 0)
    allocation = mo.ui.dropdown(["sao", "tdma"], value="sao", label="synchronous rounds are allocated by")
    server = mo.ui.dropdown(["fedbuff", "fedasync", "first-k"], value="fedbuff", label="against")
    controls(spread, buffer, draw, row=[allocation, server])
    return allocation, buffer, draw, server, spread


@app.cell(hide_code=True)
def _(allocation, buffer, draw, load_scenario, server, simulate, spread):
    def played(changes):
        _root = spread.value ** 0.5
        _work = f'{{ dist = "lognormal", median = 2e4, sigma = 1.0, min = {2e4 / _root!r}, max = {2e4 * _root!r} }}'
        return simulate(load_scenario("lab", [
            "population.phone.count=10", "selection.cohort=10", f"population.phone.cpu.cycles_per_sample={_work}",
            "end.time=2s", "end.rounds=100000", *changes]), seed=draw.value, learning=False)

    _kind = [f"server.kind={server.value}", *([] if server.value == "fedasync" else [f"server.buffer={buffer.value}"])]
    runs = {"synchronous": played([f"allocation.method={allocation.value}"]),
            server.value: played(["allocation.method=equal", "allocation.sharing=equal", *_kind])}
    return (runs,)


@app.cell(hide_code=True)
def _(mo, pl, runs, schedule, side_by_side):
    def picture(run, until_s=0.6):
        _work = run.spans.filter((pl.col("device") >= 0) & pl.col("name").is_in(["compute", "upload", "wait"]))
        return schedule([f"device {number}" for number in run.devices["device"]],
                        _work.select("device", "name", "t0", "t1").iter_rows(), run.rounds["t1"], until_s).svg()

    mo.Html(side_by_side(f"<b>{name}</b>{picture(run)}" for name, run in runs.items()))
    return


@app.cell(hide_code=True)
def _(mo, pl, runs):
    def facts(run):
        """Updates a second, joules an update, mean staleness, and deliveries of each device."""
        _arrived = run.jobs.filter(pl.col("outcome") == "arrived")
        _often = [_arrived.filter(pl.col("device") == number).height for number in run.devices["device"]]
        return {"updates a second": _arrived.height / run.summary["simulated_s"],
                "mJ an update": 1e3 * run.summary["energy_j"] / _arrived.height,
                "staleness, on average": _arrived["staleness"].mean(),
                "most deliveries of a device": max(_often), "fewest": min(_often)}

    found = {name: facts(run) for name, run in runs.items()}
    _one, _other = found.values()
    mo.md("\n".join([
        f"| | {' | '.join(found)} |", "|:---|---:|---:|",
        *(f"| {what} | {_one[what]:.3g} | {_other[what]:.3g} |" for what in _one)]))
    return (found,)


@app.cell(hide_code=True)
def _(lines, mo, runs):
    import numpy as np

    _at = np.linspace(0.0, 2.0, 101)
    _taken = {name: np.interp(_at, [0.0, *run.rounds["t1"]], [0.0, *run.rounds["arrived"].cum_sum()])
              for name, run in runs.items()}
    mo.Html(lines(_at, _taken, across="simulated time (s)", up="updates taken in").svg())
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("## Questions")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.accordion({
        "With K = 10, 5, 2, 1, what is the staleness, on average, and why do speeds not matter?": mo.md(r"""
        $(10 - 1)/K$: 0.9, 1.8, 4.5, 9. A new model makes all jobs under way one older, but for the one whose arrival
        made it: nine of ten. That is nine for every $K$ updates, whoever they come from. (A short run is a little
        below: it begins with nobody being stale.) A fast device's updates are fresh and many, a slow one's are stale
        and few: the model leans to the data of the fast.
        """),
        "Let the most work be 30 times the least, and allocate by tdma. Who takes more energy an update?": mo.md("""
        The server that does not wait, several times as much. Synchronous rounds last as long as the slowest device
        needs; all others have time, and under `tdma` they use it to compute slowly: computing costs the square of the
        clock. Where nobody waits, nobody has time: each computes as fast as its budget allows. (Under `sao` everybody
        spends the whole budget, and not waiting takes less.)
        """),
        "More updates a second: is that more accuracy a second?": mo.md("""
        Not by itself: stale updates are worth less, and the model leans to the data of the fast. Only paired runs with
        learning tell; `results/beyond/asynchronous` has them, on MNIST and FashionMNIST. In the first of them FedBuff
        takes in more updates until it is as good, and still gets there sooner: a little sooner in the paper's cell,
        much sooner where speeds are spread widely. What makes waiting expensive is the spread: move the
        first slider.
        """),
    })
    return


if __name__ == "__main__":
    app.run()

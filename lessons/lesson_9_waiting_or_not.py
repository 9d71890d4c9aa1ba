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
    from netsim.lab import pages
    from netsim.lab.charts import schedule
    from netsim.lab.curves import lines
    from netsim.lab.widgets import controls, dropdown, side_by_side, slider

    return controls, dropdown, lines, load_scenario, mo, pages, pl, schedule, side_by_side, simulate, slider


@app.cell(hide_code=True)
def _(pages):
    lesson = pages.Lesson(
        9, minutes=30,
        aim="You can say what an asynchronous server gains, and what it costs: staleness, energy, fairness.",
        steps=(
            pages.Step({"most work over least work": 1}, "All devices have the same work: not waiting gains little."),
            pages.Step({"most work over least work": 30}, "Very different work: now waiting takes most of the time."),
            pages.Step({"updates that make a new model (K)": 1}, "A new model after each update: all are stale."),
            pages.Step({"against": "first-k"}, "Rounds end with the first five updates: the others are discarded."),
        ),
        exercise=pages.Exercise(
            "Find a fleet and a K with which the server that does not wait takes in at least **4 times** as many "
            "updates a second, each with less energy than under the synchronous one, and with a staleness below **1** "
            "on average.", {"most work over least work": 10, "updates that make a new model (K)": 10}),
        leads="While a device works, the model changes. So does the channel.")
    pages.top(lesson)
    return (lesson,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # 9. Waiting or not

    A synchronous server waits for the slowest device of a round. **FedBuff** does not: a device that has finished sends
    its update and starts again at once, and every $K$ updates make a new model. **FedAsync** makes a new model of every
    update. **first-k** has rounds, but ends each after the first $K$ arrivals and discards the other updates.

    While a device works, others may make new models. Their number is the **staleness** $\tau$ of its update, which
    improves a model that has been replaced. So it has a smaller weight, $s(\tau) = 1/\sqrt{1 + \tau}$.

    Ten phones, all at work, for two simulated seconds; dark lines are new models.
    """)
    return


@app.cell(hide_code=True)
def _(controls, dropdown, slider):
    spread = slider("most work over least work", [1, 1.5, 2, 3, 5, 10, 20, 30], 3)
    buffer = slider("updates that make a new model (K)", range(1, 11), 5)
    draw = slider("draw", range(51), 0)
    allocation = dropdown("synchronous rounds are allocated by", ["sao", "tdma"], "sao")
    server = dropdown("against", ["fedbuff", "fedasync", "first-k"], "fedbuff")
    sliders = controls(spread, buffer, draw, row=[allocation, server])
    sliders
    return allocation, buffer, draw, server, sliders, spread


@app.cell(hide_code=True)
def _(allocation, buffer, draw, load_scenario, server, simulate, spread):
    def played(changes, ratio):
        """Simulate ten phones for two seconds; the most work is up to ``ratio`` times the least."""
        _root = ratio ** 0.5
        _work = f'{{ dist = "lognormal", median = 2e4, sigma = 1.0, min = {2e4 / _root!r}, max = {2e4 * _root!r} }}'
        return simulate(load_scenario("lab", [
            "population.phone.count=10", "selection.cohort=10", f"population.phone.cpu.cycles_per_sample={_work}",
            "end.time=2s", "end.rounds=100000", *changes]), seed=draw.value, learning=False)

    def synchronous(by=allocation.value, ratio=spread.value):
        return played([f"allocation.method={by}"], ratio)

    def other(kind=server.value, of=buffer.value, ratio=spread.value):
        _kind = [f"server.kind={kind}", *([] if kind == "fedasync" else [f"server.buffer={of}"])]
        return played(["allocation.method=equal", "cell.scheduler=equal", *_kind], ratio)

    runs = {"synchronous": synchronous(), server.value: other()}
    return other, runs, synchronous


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
    now = " ".join(f"**{name}**: {'; '.join(f'{what}: {value:.3g}' for what, value in each.items())}."
                   for name, each in found.items())
    mo.md("\n".join([
        f"| | {' | '.join(found)} |", "|:---|---:|---:|",
        *(f"| {what} | {_one[what]:.3g} | {_other[what]:.3g} |" for what in _one)]))
    return facts, found, now


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
    mo.md("""
    **More updates a second: is that more accuracy a second?** Not by itself: stale updates are worth less, and not all
    devices are heard alike. Only paired runs with learning tell; `results/beyond/asynchronous` has them, on MNIST and
    FashionMNIST. In the first of them FedBuff takes in more updates until it is as good, and still gets there sooner: a
    little sooner in the paper's cell, much sooner where speeds are spread widely.
    """)
    return


@app.cell(hide_code=True)
def _(pages):
    questions = (
        pages.Question("FedBuff with K = 2, with the spread and the draw as they are: how stale is an update, on "
                       "average?", unit="models"),
        pages.Question("The most work is **30 times** the least, and synchronous rounds are allocated by tdma. Who "
                       "takes more energy an update?",
                       ("The synchronous server: its devices wait", "FedBuff: its devices never wait",
                        "Both the same: the work is the same")),
        pages.Question("first-k with K = 5 ends each round with the first five of ten. Compare the energy **an "
                       "update** with a synchronous server under SAO, with the spread and the draw as they are.",
                       ("Less: its rounds are shorter", "About the same, within 10 %", "More")),
    )
    predictions = pages.ask(questions)
    return predictions, questions


@app.cell(hide_code=True)
def _(facts, other, pages, predictions, questions, synchronous):
    def _staleness():
        _found = {k: facts(other("fedbuff", k))["staleness, on average"] for k in (10, 5, 2, 1)}
        return pages.Outcome(float(_found[2]), f"""
        (10 − 1)/K, whatever the speeds are: {', '.join(f'{9 / k:g} with K = {k}' for k in _found)}; measured
        {', '.join(f'{each:.2f}' for each in _found.values())}, a little less, since the first updates of a run are not
        stale. A new model raises the staleness of all running jobs by one, except the job that completed it: nine of
        ten. That is nine for every K updates, from any device. The updates of a fast device are fresh and many, those
        of a slow one stale and few: the model is biased to the data of fast devices.
        """)

    def _energy():
        _waits, _comes, _sao = (facts(run)["mJ an update"] for run in (
            synchronous("tdma", 30), other("fedbuff", 5, 30), synchronous("sao", 30)))
        _what = 2 if abs(_waits / _comes - 1) < 0.1 else 0 if _waits > _comes else 1
        return pages.Outcome(questions[1].choices[_what], f"""
        {_waits:.1f} mJ with waiting, {_comes:.1f} mJ without. Synchronous rounds last as long as the slowest device
        needs; all others have time, and under `tdma` they use it to compute slowly: computing costs the square of the
        clock. Without waiting there is no spare time: each device computes as fast as its budget allows. (Under `sao`
        every device spends its whole budget, {_sao:.1f} mJ, and not waiting takes less.)
        """)

    def _idle_calls():
        _waits, _first = facts(synchronous("sao")), facts(other("first-k", 5))
        _ratio = _first["mJ an update"] / _waits["mJ an update"]
        return pages.Outcome(questions[2].choices[0 if _ratio < 0.9 else 2 if _ratio > 1.1 else 1], f"""
        {_first['mJ an update']:.1f} mJ against {_waits['mJ an update']:.1f} mJ. Ten devices work and five updates are
        aggregated; the energy of the others is wasted. Rounds are shorter, so that there are
        {_first['updates a second']:.0f} updates a second instead of {_waits['updates a second']:.0f}; but one phone
        delivers {_first['most deliveries of a device']:.0f} of them in two seconds, and another
        {_first['fewest']:.0f}.
        """)

    answers = (_staleness, _energy, _idle_calls)
    pages.replies(questions, predictions, answers)
    return (answers,)


@app.cell(hide_code=True)
def _(lesson, pages, sliders):
    pages.exercise(lesson, sliders)
    return


@app.cell(hide_code=True)
def _(found, pages):
    _waits, _comes = found["synchronous"], [*found.values()][1]
    _times = _comes["updates a second"] / _waits["updates a second"]
    conditions = (
        pages.Condition("at least 4 times as many updates a second", _times >= 4, f"{_times:.1f} times"),
        pages.Condition("less energy an update", _comes["mJ an update"] < _waits["mJ an update"],
                        f"{_comes['mJ an update']:.1f} mJ against {_waits['mJ an update']:.1f} mJ"),
        pages.Condition("a staleness below 1", _comes["staleness, on average"] < 1,
                        f"{_comes['staleness, on average']:.2f} models"),
    )
    pages.check(conditions)
    return (conditions,)


@app.cell(hide_code=True)
def _(lesson, pages):
    pages.end(lesson)
    return


if __name__ == "__main__":
    app.run()

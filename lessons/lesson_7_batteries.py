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
    from netsim.lab import pages
    from netsim.lab.curves import lines
    from netsim.lab.widgets import controls, dropdown, slider

    return controls, dropdown, lines, load_scenario, mo, pages, pl, simulate, slider


@app.cell(hide_code=True)
def _(pages):
    lesson = pages.Lesson(
        7, minutes=30,
        aim="You can tell a budget from a battery, and say who pays over many rounds for rounds that are short.",
        steps=(
            pages.Step({"battery of a phone (mJ)": 500}, "Most phones last: rounds stay as long as they were."),
            pages.Step({"allocation": "equal"}, "Longer rounds, less energy: the near devices are left below budget."),
            pages.Step({"selection": "round-robin"}, "In turns: the first goes later, and then they all go together."),
            pages.Step({"selection": "fedcs"}, "The fast ones each time: most sensors are spared, and never heard."),
        ),
        exercise=pages.Exercise(
            "Batteries of **12 mJ** and **200 mJ** are all you have. Choose allocation and selection so that after 60 "
            "rounds at most **13** devices are used up and at least **460** uploads have arrived. Then ask: whose data "
            "does your choice never hear?", {"allocation": "fedl", "selection": "fedcs"}),
        leads="SAO spends what it may, in slices of the band that lie idle half of the time. Does it have to?")
    pages.top(lesson)
    return (lesson,)


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
def _(controls, dropdown, slider):
    battery = slider("battery of a sensor (mJ)", [2, 4, 6, 8, 12, 16, 24, 40], 12)
    phone = slider("battery of a phone (mJ)", [50, 100, 150, 200, 300, 500], 200)
    method = dropdown("allocation", ["sao", "equal", "fedl"], "sao")
    choice = dropdown("selection", ["fedavg", "round-robin", "fedcs", "proportional-fair"], "fedavg")
    sliders = controls(battery, phone, row=[method, choice])
    sliders
    return battery, choice, method, phone, sliders


@app.cell(hide_code=True)
def _(battery, choice, load_scenario, method, phone, simulate):
    def played(sensor_mj=battery.value, phone_mj=phone.value, allocation=method.value, selection=choice.value):
        """Sixty rounds as the controls say, but for what is given here."""
        return simulate(load_scenario("mixed-fleet", [
            f"population.sensor.battery={sensor_mj} mJ", f"population.phone.battery={phone_mj} mJ",
            f"allocation.method={allocation}", f"selection.method={selection}", "end.rounds=60",
        ]), seed=2, learning=False)

    run = played()
    return played, run


@app.cell(hide_code=True)
def _(mo, pl, run):
    _charge = run.events.filter(pl.col("name") == "battery").join(
        run.devices.select(pl.col("device").cast(pl.Int32), "battery_j"), on="device")
    used_up = _charge.filter(pl.col("value") < 0.01 * pl.col("battery_j")).group_by("device").agg(pl.col("round").min())
    summary = run.summary
    arrived = int(run.rounds["arrived"].sum())
    now = (f"**{summary['rounds']} rounds** in {summary['simulated_s']:.2f} s, with {1e3 * summary['energy_j']:.0f} mJ "
           f"in all; {arrived} uploads arrive. **{used_up.height} devices** have used up their batteries, all but the "
           f"last hundredth. Of all who were chosen, {summary['dropped']} found no plan, since battery or budget did "
           "not pay for a job.")
    mo.md(now)
    return arrived, now, used_up


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
def _(pages):
    questions = (
        pages.Question("SAO makes every round as short as can be. With batteries and selection as they are: does it "
                       "take more or less energy over the 60 rounds than **equal** shares?",
                       ("Less: shorter rounds take less energy", "About as much: the work is the same", "More")),
        pages.Question("The sensors get batteries of 24 mJ instead of 12, the phones have 200 mJ, with SAO and fedavg. "
                       "What happens to the energy that **all** devices together spend in 60 rounds?",
                       ("It grows: there is more to spend", "It stays", "It falls")),
        pages.Question("A phone has 5 mJ left in its battery and a budget of 30 mJ. It is chosen. What does the plan "
                       "make of it?",
                       ("It stays out: it can't spend its budget",
                        "It takes part with 5 mJ: slower, on more of the band",
                        "It starts with 30 mJ in mind, and is gone in mid-round")),
    )
    predictions = pages.ask(questions)
    return predictions, questions


@app.cell(hide_code=True)
def _(pages, pl, played, predictions, questions):
    from dataclasses import replace

    from netsim.allocation import Infeasible, allocate
    from netsim.lab.settings import Settings
    from netsim.sample_problem import sample_problem

    def _by_kind(run):
        """Millijoules of each kind of device, as words."""
        _spent = run.jobs.join(run.devices.select(pl.col("device").cast(run.jobs["device"].dtype), "kind"), on="device")
        return {kind: 1e3 * float(_spent.filter(pl.col("kind") == kind)["energy_j"].sum())
                for kind in ("phone", "sensor", "laptop")}

    def _sao_or_equal():
        _sao, _equal = (played(allocation=allocation).summary for allocation in ("sao", "equal"))
        _ratio = _sao["energy_j"] / _equal["energy_j"]
        return pages.Outcome(questions[0].choices[0 if _ratio < 0.98 else 2 if _ratio > 1.02 else 1], f"""
        SAO: {_sao['simulated_s']:.2f} s, {1e3 * _sao['energy_j']:.0f} mJ; equal shares: {_equal['simulated_s']:.2f} s
        and {1e3 * _equal['energy_j']:.0f} mJ. With an equal share the near devices send quickly, compute at their
        highest clock and end below their budget. SAO moves bandwidth from them to the far devices, so they send for
        longer and spend their whole budget: the time of the far devices is paid with the energy of the near ones.
        Within the budget, energy costs nothing in SAO's problem; a battery knows better.
        """)

    def _larger_batteries():
        _small, _large = (_by_kind(played(sensor_mj, 200, "sao", "fedavg")) for sensor_mj in (12, 24))
        _ratio = sum(_large.values()) / sum(_small.values())
        return pages.Outcome(questions[1].choices[2 if _ratio < 0.98 else 0 if _ratio > 1.02 else 1], f"""
        {sum(_small.values()):.0f} mJ become {sum(_large.values()):.0f} mJ: {'; '.join(f'{kind}s {mj:.0f} to '
        f'{_large[kind]:.0f} mJ' for kind, mj in _small.items())}. What matters is who is chosen
        instead: while the sensors last, they take places that phones and then laptops would take, and those spend far
        more on a job. For the same reason each device that goes empty drains the others: the remaining devices are
        selected more often. In the end only the laptops on mains are left.
        """)

    def _five_left():
        _problem = sample_problem(Settings().scenario(), 4).problem
        _full = allocate(_problem)
        try:
            _low = allocate(replace(_problem, budget_j=[0.005, *_problem.budget_j[1:]]))
        except Infeasible:
            return pages.Outcome(questions[2].choices[0], "In the lab's draw 4, 5 mJ do not pay for a job.")
        return pages.Outcome(questions[2].choices[1 if _low.device_energy_j[0] <= 0.005 * 1.001 else 2], f"""
        It plans with 5 mJ. In the lab's draw 4, the first device then computes at {1e-9 * _low.cpu_hz[0]:.2f} GHz
        instead of {1e-9 * _full.cpu_hz[0]:.2f} GHz, which is cheap, and gets {1e-6 * _low.bandwidth_hz[0]:.2f} MHz
        instead of {1e-6 * _full.bandwidth_hz[0]:.2f} MHz, so that it need not send for long; the round takes
        {1e3 * _low.round_s:.0f} ms instead of {1e3 * _full.round_s:.0f} ms. It arrives with the last of its energy, and
        `netsim explain` names its battery among what holds the round up. Whether it should have been chosen at all is
        another question: a selection method of your own sees `view.battery_j`.
        """)

    answers = (_sao_or_equal, _larger_batteries, _five_left)
    pages.replies(questions, predictions, answers)
    return (answers,)


@app.cell(hide_code=True)
def _(lesson, pages, sliders):
    pages.exercise(lesson, sliders)
    return


@app.cell(hide_code=True)
def _(arrived, battery, pages, phone, used_up):
    conditions = (
        pages.Condition("batteries of 12 mJ and 200 mJ at most", battery.value <= 12 and phone.value <= 200,
                        f"{battery.value} mJ and {phone.value} mJ"),
        pages.Condition("at most 13 devices are used up", used_up.height <= 13, f"{used_up.height} devices"),
        pages.Condition("at least 460 uploads arrive", arrived >= 460, f"{arrived} uploads"),
    )
    pages.check(conditions)
    return (conditions,)


@app.cell(hide_code=True)
def _(lesson, pages):
    pages.end(lesson)
    return


if __name__ == "__main__":
    app.run()

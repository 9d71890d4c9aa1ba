# /// script
# [tool.marimo.display]
# theme = "system"      # light or dark, as the reader's screen is
# ///
"""Lesson 4: the device that limits a whole run."""

import marimo

app = marimo.App(width="medium", app_title="4. The straggler", css_file="lessons.css")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from netsim import load_scenario, simulate
    from netsim.lab import pages
    from netsim.lab.charts import timeline
    from netsim.lab.widgets import controls, dropdown, slider

    return controls, dropdown, load_scenario, mo, pages, simulate, slider, timeline


@app.cell(hide_code=True)
def _(pages):
    lesson = pages.Lesson(
        4, minutes=30,
        aim="You can find the device that limits a run, also if all devices finish together, and what would help.",
        steps=(
            pages.Step({"distance of the sensor (m)": 50}, "A better place for the sensor: hardly anything happens."),
            pages.Step({"highest clock of the sensor (GHz)": 0.8}, "A faster clock: this is what the run waited for."),
            pages.Step({"highest clock of the sensor (GHz)": 2.0},
                       "Now another device is last: a faster sensor no longer shortens the round."),
            pages.Step({"allocation": "sao"}, "All finish together, but the sensor limits the round: see its price."),
        ),
        exercise=pages.Exercise(
            "The sensor stays at **280 m**, and its clock can't go beyond **0.8 GHz**. Get the ten rounds done in less "
            "than **1.2 s**.", {"highest clock of the sensor (GHz)": 0.8, "allocation": "sao"}),
        leads="Who takes part matters for the time. It matters for what is learned, too: devices hold different data.")
    pages.top(lesson)
    return (lesson,)


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    # 4. The straggler and the critical path

    Twelve phones and **one** old sensor with a slow CPU, far from the base station. Every round takes eight of them at
    random. The simulation is the real one, event by event; it leaves a trace that says what waited for what. The
    longest chain in it, the **critical path**, is exactly as long as the run. A step that is not on the path could
    take a little longer without delaying the run.
    """)
    return


@app.cell(hide_code=True)
def _(controls, dropdown, slider):
    clock = slider("highest clock of the sensor (GHz)", [0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0], 0.3)
    place = slider("distance of the sensor (m)", range(50, 310, 10), 280)
    method = dropdown("allocation", ["equal", "sao"], "equal")
    sliders = controls(clock, place, row=[method])
    sliders
    return clock, method, place, sliders


@app.cell(hide_code=True)
def _(clock, load_scenario, method, place, simulate):
    import tempfile
    from pathlib import Path

    def played(ghz=clock.value, metres=place.value, allocation=method.value):
        """Ten rounds as the controls say, but for what is given here."""
        text = f"""
        base = "lab"

        [[population]]
        name = "phone"
        count = 12
        budget = "30 mJ"

        [[population]]
        name = "sensor"
        places = [["{metres} m", "0 m"]]
        cpu = {{ min = "0.05 GHz", max = "{ghz} GHz", cycles_per_sample = 2e4 }}
        radio = {{ power = "23 dBm" }}
        budget = "30 mJ"

        [selection]
        cohort = 8

        [allocation]
        method = "{allocation}"
        """
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "straggler.toml"
            file.write_text(text, encoding="utf-8")
            return simulate(load_scenario(file), seed=1, learning=False)

    run = played()
    return played, run


@app.cell(hide_code=True)
def _(mo, run, slider):
    path = run.critical_path()
    explained = run.explain(methods=False)
    which = slider("round", range(1, run.last_round + 1), explained.round)
    now = " ".join([f"Ten rounds took **{1e3 * path.length_s:.0f} ms**, as long as the critical path.",
                    *(f"{said[0].upper()}{said[1:]}." for said in path.advice())]).replace("..", ".")
    mo.vstack([mo.md(now), which])
    return explained, now, path, which


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
            f"{_said} {_best.sentence('the run')}")

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
def _(pages):
    questions = (
        pages.Question("The sensor gets a CPU of 2 GHz instead of 0.3 GHz, nearly seven times as fast, and stays where "
                       "it is. Under equal shares, how many times as fast are the ten rounds?", unit="times",
                       within=0.15),
        pages.Question("Under SAO all devices of a round end at the same moment. Take the longest round, with a sensor "
                       "of 0.3 GHz at 280 m. Of which of these would one per cent more shorten it most?",
                       ("Of none: they all are equally late", "Of the cell's band", "Of the sensor's clock",
                        "Of a phone's energy budget")),
        pages.Question("Any device has a bad day in one of a hundred rounds. In how many rounds of a hundred does a "
                       "cohort of **a hundred** devices wait for one that has?", unit="rounds of 100"),
    )
    predictions = pages.ask(questions)
    return predictions, questions


@app.cell(hide_code=True)
def _(pages, place, played, predictions, questions):
    def _faster_sensor():
        _slow, _fast = (played(ghz, allocation="equal").critical_path() for ghz in (0.3, 2.0))
        _near_s = played(0.3, place.value / 2, "equal").critical_path().length_s
        return pages.Outcome(_slow.length_s / _fast.length_s, f"""
        {1e3 * _slow.length_s:.0f} ms become {1e3 * _fast.length_s:.0f} ms. The sensor takes part in some of the rounds
        only, and in these another device soon becomes the last: now {_fast.causes['device_name'][0]} is on the path for
        most of the time, and a still faster sensor is worth nothing. A better place alone would bring even less,
        {1e3 * _near_s:.0f} ms at half the distance: it only shortens the few milliseconds in which the sensor sends.
        """)

    def _price():
        _run = played(0.3, 280, "sao")
        _found = _run.explain(methods=False)
        _first = _found.binding[0]
        _band = next((each.next_s for each in _found.binding if each.limit == "bandwidth" and each.next_s), 0.0)
        _what = {"bandwidth": 1, "cpu_max": 2, "budget": 3}[_first.limit]
        _faster_ms = 1e3 * played(0.8, 280, "sao").critical_path().length_s
        return pages.Outcome(questions[1].choices[_what], f"""
        The ends of the bars do not tell: SAO hands the band from one to the other until all end at the same moment, so
        each of them is on some longest chain. What tells is the **price**. One per cent more of the sensor's clock
        makes round {_found.round} shorter by {1e3 * _first.next_s:.2f} of {1e3 * _found.round_s:.0f} ms; of the band,
        by {1e3 * _band:.3f} ms. So the sensor limits the round, although all finish together. Try it: with 0.8 GHz
        the ten rounds take {_faster_ms:.0f} ms instead of {1e3 * _run.critical_path().length_s:.0f} ms.
        """)

    def _bad_days():
        return pages.Outcome(100 * (1 - 0.99 ** 100), f"""
        All hundred are well with probability 0.99<sup>100</sup> = {0.99 ** 100:.2f}. With a cohort of ten it is
        {0.99 ** 10:.2f}: one round of ten waits. Most rounds of a large cohort are delayed, each
        by a different device, so that no device is slow on average.
        """)

    answers = (_faster_sensor, _price, _bad_days)
    pages.replies(questions, predictions, answers)
    return (answers,)


@app.cell(hide_code=True)
def _(lesson, pages, sliders):
    pages.exercise(lesson, sliders)
    return


@app.cell(hide_code=True)
def _(clock, pages, path, place):
    conditions = (
        pages.Condition("the sensor is 280 m away", place.value == 280, f"{place.value} m"),
        pages.Condition("its clock is 0.8 GHz at most", clock.value <= 0.8, f"{clock.value} GHz"),
        pages.Condition("ten rounds take less than 1.2 s", path.length_s < 1.2, f"{path.length_s:.2f} s"),
    )
    pages.check(conditions)
    return (conditions,)


@app.cell(hide_code=True)
def _(lesson, pages):
    pages.end(lesson)
    return


if __name__ == "__main__":
    app.run()

"""Template of a lesson: copy it to lessons/lesson_12_my_topic.py, and run it with `marimo run` or in `netsim lab`."""

import marimo

app = marimo.App(width="medium", app_title="12. My topic", css_file="lessons.css")

with app.setup(hide_code=True):
    import marimo as mo

    from netsim.lab import charts, pages
    from netsim.lab.round_model import look
    from netsim.lab.settings import Settings
    from netsim.lab.widgets import controls, slider


@app.cell(hide_code=True)
def _():
    lesson = pages.Lesson(
        12, minutes=20, aim="You can say what a wider band changes.",
        steps=(pages.Step({"bandwidth (MHz)": 40}, "Twice the band, less than half the time."),),
        exercise=pages.Exercise("Get the round below **160 ms**.", {"bandwidth (MHz)": 60}),
        leads="That was the last lesson.")
    bandwidth = slider("bandwidth (MHz)", range(2, 102, 2), 20)
    sliders = controls(bandwidth)
    mo.vstack([pages.top(lesson), mo.md("# 12. My topic\n\nWhat your students read first."), sliders])
    return bandwidth, lesson, sliders


@app.cell(hide_code=True)
def _(bandwidth):
    view = look(Settings(bandwidth_mhz=bandwidth.value).scenario(), ("equal", "sao"), 4)
    equal_ms, sao_ms = (1e3 * answer.plan.round_s for answer in view.answers)
    now = f"The round takes **{equal_ms:.1f} ms** with equal shares, {sao_ms:.1f} ms with the best ones."
    mo.vstack([mo.md(now), mo.Html(charts.gantt(view, view.answers[1]).svg())])
    return equal_ms, now, sao_ms


@app.cell(hide_code=True)
def _():
    questions = (pages.Question("How many times as long do equal shares take?", unit="times"),
                 pages.Question("Which is shorter?", ("equal shares", "the best shares")))
    predictions = pages.ask(questions)
    return predictions, questions


@app.cell(hide_code=True)
def _(equal_ms, predictions, questions, sao_ms):
    answers = (lambda: pages.Outcome(equal_ms / sao_ms, "The slowest device gets too little band."),
               lambda: pages.Outcome("the best shares", "All devices finish together."))
    pages.replies(questions, predictions, answers)
    return (answers,)


@app.cell(hide_code=True)
def _(lesson, sao_ms, sliders):
    conditions = (pages.Condition("below 160 ms", sao_ms < 160, f"{sao_ms:.1f} ms"),)
    mo.vstack([pages.exercise(lesson, sliders), pages.check(conditions), pages.end(lesson)])
    return (conditions,)

# /// script
# [tool.marimo.display]
# theme = "system"      # light or dark, as the reader's screen is
# ///
"""Lesson 10: a plan that is old when it is made."""

import marimo

app = marimo.App(width="medium", app_title="10. Stale channels", css_file="lessons.css")


@app.cell(hide_code=True)
def _():
    import marimo as mo
    import numpy as np

    from netsim.allocation import allocate
    from netsim.lab import charts, pages
    from netsim.lab.captions import headline, rounds
    from netsim.lab.curves import lines
    from netsim.lab.round_model import LabView, MethodResult, faded_round, look
    from netsim.lab.settings import Settings
    from netsim.lab.widgets import controls, side_by_side, slider
    from netsim.sample_problem import sample_problem

    return (
        MethodResult, LabView, Settings, allocate, charts, controls, faded_round, headline, lines, look, mo, np,
        sample_problem,
        pages, rounds, side_by_side, slider,
    )


@app.cell(hide_code=True)
def _(pages):
    lesson = pages.Lesson(
        10, minutes=25,
        aim="You can say when to plan with the measured gain of a channel, and when with its mean.",
        steps=(
            pages.Step({"coherence time (ms)": 1}, "An upload sees many draws: a plan on the mean loses little."),
            pages.Step({"coherence time (ms)": 1000}, "Longer than the round: the measurement holds, and the budgets."),
            pages.Step({"draw": 15}, "A device is in a deep fade now: with that gain there is no plan at all."),
        ),
        exercise=pages.Exercise(
            "An average is not a law. With a coherence time of **10 ms or less**, find a draw in which the plan on the "
            "gain of **now** gives the shorter round.", {"coherence time (ms)": 10, "draw": 28}),
        leads="Channels come and go within a round. So do the devices themselves.")
    pages.top(lesson)
    return (lesson,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # 10. Stale channels

    A plan is made when a round begins. It allocates the band by the known gains $h_n$. Then all devices compute and
    send, which takes about a tenth of a second. If people walk and cars drive, the channel fades meanwhile: it has a
    new gain after every **coherence time**, about $0.423\, c / (v f)$. At 2 GHz that is 63 ms for a walker at 1 m/s
    and 6.3 ms for a car at 10 m/s; a round of 130 ms has 2 to 20 coherence times.

    Which gains should a plan use? The gains **now**, as just measured, or the **mean** gains, without fading? Below are
    simulated rounds, with bandwidths and clocks as planned.
    """)
    return


@app.cell(hide_code=True)
def _(controls, slider):
    coherence = slider("coherence time (ms)", [1, 3, 10, 30, 100, 300, 1000], 10)
    draw = slider("draw", range(51), 4)
    sliders = controls(coherence, draw)
    sliders
    return coherence, draw, sliders


@app.cell(hide_code=True)
def _(MethodResult, LabView, Settings, draw, faded_round, look, np):
    whole = look(Settings(seed=draw.value).scenario(), (), draw.value)

    def went(ms):
        """Return the two rounds as simulated with this coherence time."""
        def _answer(believes):
            _found = faded_round(whole.problem, ms / 1e3, believes, draw.value)
            _name = f"planned on the gain {'now' if believes == 'instantaneous' else 'in the mean'}"
            return MethodResult(_name, _found and _found[1], reason="the current channel of a device is too bad")

        return LabView(whole.population, whole.devices, whole.problem, (_answer("instantaneous"), _answer("mean")))

    return (went,)


@app.cell(hide_code=True)
def _(allocate, charts, coherence, headline, mo, rounds, side_by_side, went):
    view = went(coherence.value)
    _over = ", ".join(f"{answer.plan.over_budget.sum()} over budget {answer.method}"
                      for answer in view.answers if answer.plan is not None)
    _still = f"Without fading the round takes {1e3 * allocate(view.problem).round_s:.1f} ms."
    now = f"{rounds(view)} Of {len(view.problem)} devices, {_over}. {_still}"
    mo.Html(side_by_side(
        headline(view, answer) + charts.gantt(view, answer).svg() + charts.energy(view, answer).svg()
        for answer in view.answers) + f"<p>{_still}</p>")
    return now, view


@app.cell(hide_code=True)
def _(Settings, allocate, faded_round, np, sample_problem):
    from functools import cache

    @cache
    def drawn():
        """Sixteen cohorts, with their rounds while nothing fades."""
        _problems = [(seed, sample_problem(Settings().scenario(), seed).problem) for seed in range(16)]
        return [(seed, problem, allocate(problem).round_s) for seed, problem in _problems]

    @cache
    def median(believes, ms):
        """Return the median over feasible draws of the round time relative to the round without fading."""
        _rounds = [(faded_round(problem, ms / 1e3, believes, seed), still_s) for seed, problem, still_s in drawn()]
        return float(np.median([found[1].round_s / still_s for found, still_s in _rounds if found]))

    return (median,)


@app.cell(hide_code=True)
def _(pages):
    questions = (
        pages.Question("The channel changes every **10 ms**. Over many draws, which plan gives the shorter round?",
                       ("The plan on the gain now: to measure is better than not to", "The plan on the mean gain",
                        "Both are within 1 %")),
        pages.Question("A coherence time of **1000 ms**, many rounds long. Which plan is better then?",
                       ("The plan on the gain now", "The plan on the mean gain", "Both are within 1 %")),
        pages.Question("A coherence time of **1 ms**: within an upload the channel has been through everything, good "
                       "and bad. How many of the ten devices break their budget under the plan on the mean gain?",
                       unit="devices", within=0.05),
    )
    predictions = pages.ask(questions)
    return predictions, questions


@app.cell(hide_code=True)
def _(median, pages, predictions, questions, went):
    def _longer(ms):
        return [100 * (median(believes, ms) - 1) for believes in ("instantaneous", "mean")]

    def _which(question, ms):
        _now, _mean = _longer(ms)
        return question.choices[2 if abs(_now - _mean) < 1 else 0 if _now < _mean else 1]

    def _ten_ms():
        _now, _mean = _longer(10)
        return pages.Outcome(_which(questions[0], 10), f"""
        On the gain now the round is {_now:.0f} % longer than without fading, on the mean {_mean:.0f} % (medians over 16
        draws). What was measured is true for 10 ms only, and the uploads begin tens of milliseconds later. A device in
        a deep fade gets a wide band that it no longer needs when it sends, and one that happens to be strong gets too
        little. The plan on the mean is wrong in every single moment, but an upload lasts several coherence times, and
        its rate is an average over them: a little below that of the mean gain, since a logarithm flattens the peaks.
        """)

    def _a_second():
        _now, _mean = _longer(1000)
        return pages.Outcome(_which(questions[1], 1000), f"""
        On the gain now the round is {_now:.0f} % longer than without fading, on the mean {_mean:.0f} %. A fade lasts
        longer than the round, so the measurement at its beginning holds to its end. The plan on the mean gives too
        little bandwidth to a device in a fade, and the round waits for it. **Measure if the coherence time is longer
        than the round.**
        """)

    def _broken():
        _now, _mean = (each.plan.over_budget.sum() if each.plan else 0 for each in went(1).answers)
        return pages.Outcome(int(_mean), f"""
        {_mean} of ten; {_now} under the plan on the gain now. The shortest plan uses every budget to its end, so that
        any delay breaks it, and a rate that is averaged over fades is a little below that of the mean gain. Three
        remedies: plan with a margin below the budget; end a job when its budget is spent
        (`rounds.on_budget_exceeded = "abort"`) and lose its work; or reallocate the band during uploads
        (`cell.scheduler = "adaptive"`), which helps slow devices.
        """)

    answers = (_ten_ms, _a_second, _broken)
    pages.replies(questions, predictions, answers)
    return (answers,)


@app.cell(hide_code=True)
def _(lines, median, mo, np, pages, predictions):
    def curve():
        """Draw the relative round time against the coherence time."""
        _ms = [3, 10, 30, 100, 300]
        _longer = {f"plan on the gain {'now' if which == 'instantaneous' else 'in the mean'}":
                   [100 * (median(which, ms) - 1) for ms in _ms] for which in ("instantaneous", "mean")}
        return mo.Html(
            lines(np.log10(_ms), _longer, across="log10 of the coherence time in ms: 1 is 10 ms, 2 is 100 ms",
                  up="% longer than without fading").svg()
            + "<p>Medians over 16 draws; a draw without a plan on the gain now is left out there.</p>")

    pages.after(predictions, 1, curve)
    return (curve,)


@app.cell(hide_code=True)
def _(lesson, pages, sliders):
    pages.exercise(lesson, sliders)
    return


@app.cell(hide_code=True)
def _(coherence, pages, view):
    _ms = [1e3 * plan.round_s for plan in view.plans]
    conditions = (
        pages.Condition("a coherence time of 10 ms at most", coherence.value <= 10, f"{coherence.value} ms"),
        pages.Condition("the plan on the gain now is shorter", len(_ms) == 2 and _ms[0] < _ms[1],
                        f"{_ms[0]:.1f} ms against {_ms[1]:.1f} ms" if len(_ms) == 2 else "it does not exist"),
    )
    pages.check(conditions)
    return (conditions,)


@app.cell(hide_code=True)
def _(lesson, pages):
    pages.end(lesson)
    return


if __name__ == "__main__":
    app.run()

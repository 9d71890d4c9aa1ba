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
    from netsim.lab import charts
    from netsim.lab.curves import lines
    from netsim.lab.settings import Settings
    from netsim.lab.stale import faded_round
    from netsim.lab.view import Answer, LabView, look
    from netsim.lab.widgets import controls, side_by_side, slider
    from netsim.lab.words import headline
    from netsim.random_cohort import one_round

    return (Answer, LabView, Settings, allocate, charts, controls, faded_round, headline, lines, look, mo, np,
            one_round, side_by_side, slider)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # 10. Stale channels

    A plan is made when a round begins. It divides the band by the gains $h_n$ that it knows, and then a tenth of a
    second passes in which everybody computes and sends. If people walk and cars drive, the channel fades meanwhile:
    its gain is drawn anew after every **coherence time**, about $0.423\, c / (v f)$. At 2 GHz that is 63 ms for a
    walker at 1 m/s and 6.3 ms for a car at 10 m/s; a round of 130 ms is 2 to 20 of them.

    What should a plan believe? The gains **now**, as measured a moment ago; or the **mean** gains, which know nothing
    of fading? Below are rounds as they really went, bands and clocks as planned.
    """)
    return


@app.cell(hide_code=True)
def _(controls, slider):
    coherence = slider("coherence time (ms)", [1, 3, 10, 30, 100, 300, 1000], 10)
    draw = slider("draw", range(51), 4)
    controls(coherence, draw)
    return coherence, draw


@app.cell(hide_code=True)
def _(Answer, LabView, Settings, allocate, charts, coherence, draw, faded_round, headline, look, mo, np, side_by_side):
    def went(believes):
        """The round as it went, as an answer that can be drawn."""
        found = faded_round(_whole.problem, coherence.value / 1e3, believes, draw.value)
        name = f"planned on the gain {'now' if believes == 'now' else 'in the mean'}"
        return Answer(name, found and found[1], np.zeros(0, np.int64), "somebody's channel is too bad just now")

    _whole = look(Settings(seed=draw.value).scenario(), (), draw.value)
    view = LabView(_whole.population, _whole.devices, _whole.problem, (went("now"), went("mean")))
    still_s = allocate(_whole.problem).round_s
    mo.Html(side_by_side(
        headline(view, answer) + charts.gantt(view, answer).svg() + charts.energy(view, answer).svg()
        for answer in view.answers) + f"<p>Without fading the round takes {1e3 * still_s:.1f} ms.</p>")
    return (view,)


@app.cell(hide_code=True)
def _(Settings, allocate, faded_round, lines, mo, np, one_round):
    times_ms = [3, 10, 30, 100, 300]
    _drawn = [(seed, one_round(Settings().scenario(), seed).problem) for seed in range(16)]
    _still = {seed: allocate(problem).round_s for seed, problem in _drawn}

    def _median(believes, ms):
        rounds = [(seed, faded_round(problem, ms / 1e3, believes, seed)) for seed, problem in _drawn]
        return float(np.median([found[1].round_s / _still[seed] for seed, found in rounds if found]))

    medians = {believes: [_median(believes, ms) for ms in times_ms] for believes in ("now", "mean")}
    _longer = {f"plan on the gain {'now' if which == 'now' else 'in the mean'}": [100 * (each - 1) for each in values]
               for which, values in medians.items()}
    mo.Html(lines(np.log10(times_ms), _longer, across="log10 of the coherence time in ms: 1 is 10 ms, 2 is 100 ms",
                  up="% longer than without fading").svg()
            + "<p>Medians over 16 draws; a draw without a plan on the gain now is left out there.</p>")
    return medians, times_ms


@app.cell(hide_code=True)
def _(mo):
    mo.md("## Questions")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.accordion({
        "To measure is better than not to measure. Why is the gain of now the worse advice at 10 ms?": mo.md("""
        Because it is true for 10 ms only, and the uploads begin tens of milliseconds later. A device in a deep fade
        gets a wide band that it no longer needs when it sends, and one that happens to be strong gets too little. The
        plan on the mean is wrong in every single moment, but an upload lasts several coherence times, and its rate is
        an average over them: about that of the mean gain, a little below (Jensen: 0.84 of it at a mean SNR of 10 dB).
        """),
        "Move the coherence time to 300 ms and beyond. What has changed?": mo.md("""
        Now a fade lasts longer than the round, so what was measured at its beginning holds to its end: a plan on the
        gain of now is exact. The plan on the mean gives too little band to whoever is in a fade, and the round waits
        for that one. The two lines cross between 100 and 300 ms: measure if the channel outlives the round.
        """),
        "Half of the devices and more break their budget. What could be done?": mo.md("""
        The shortest plan uses every budget to its end, so that any delay breaks it. One can plan with a margin, so
        many per cent below the budget; end a job when its budget is spent (`rounds.over_budget = "drop"`), and lose
        its work; or divide the band anew as uploads go on (`allocation.sharing = "adaptive"`), which helps those that
        are behind.
        """),
    })
    return


if __name__ == "__main__":
    app.run()

# /// script
# [tool.marimo.display]
# theme = "system"      # light or dark, as the reader's screen is
# ///
"""Lesson 2: two devices, then ten, share one band."""

import marimo

app = marimo.App(width="medium", app_title="2. Sharing a band", css_file="lessons.css")


@app.cell(hide_code=True)
def _():
    from dataclasses import replace

    import marimo as mo
    import numpy as np

    from netsim.allocation import Infeasible, Problem, allocate
    from netsim.lab import charts, pages
    from netsim.lab.captions import headline, rounds, verdict
    from netsim.lab.curves import lines
    from netsim.lab.round_model import look
    from netsim.lab.settings import Settings
    from netsim.lab.widgets import controls, side_by_side, slider
    from netsim.physics import path_gain

    return (
        Infeasible, Problem, Settings, allocate, charts, controls, headline, lines, look, mo, np, pages, path_gain,
        replace, rounds, side_by_side, slider, verdict,
    )


@app.cell(hide_code=True)
def _(pages):
    lesson = pages.Lesson(
        2, minutes=25,
        aim="You can say how to cut a band among devices that all must be done, and why equal slices are not fair.",
        steps=(
            pages.Step({"share of the far device (%)": 80}, "Too much for the far device: now the near one is last."),
            pages.Step({"share of the far device (%)": 64}, "Where the curves cross, both end together, and sooner."),
            pages.Step({"draw": 6}, "All devices are near in this draw: the less they differ, the less SAO gains."),
            pages.Step({"bandwidth (MHz)": 60}, "With plenty of band it matters less how it is cut."),
        ),
        exercise=pages.Exercise(
            "The far device moves to **350 m**. Cut the band so that the round is at most **0.5 %** longer than the "
            "best possible one.", {"distance of the far device (m)": 350, "share of the far device (%)": 69}),
        leads="Each CPU ran as fast as its energy budget allows. How fast is that?")
    pages.top(lesson)
    return (lesson,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # 2. Sharing a band: equal against SAO

    All devices of a cohort upload at the same time, each on a slice of its own: $\sum_n b_n \le B$. The round ends
    with the **last** of them, so a slice is worth most where it shortens the longest time.

    ## Two devices

    One is near, the other far; both have the same work and the same energy budget. You cut the band. Each CPU then
    runs as fast as what is left of its budget allows.
    """)
    return


@app.cell(hide_code=True)
def _(controls, slider):
    share = slider("share of the far device (%)", range(5, 96), 50)
    far = slider("distance of the far device (m)", range(100, 360, 10), 250)
    cut = controls(share, far)
    cut
    return cut, far, share


@app.cell(hide_code=True)
def _(Infeasible, Problem, allocate, far, np, path_gain, replace):
    def pair(metres):
        """A device at 80 m and one so far away, with 4 MHz for both."""
        return Problem(
            bits=448e3, cycles=1e8, capacitance=1e-28, gain=path_gain([80.0, metres], 128.1, 37.6), power_w=0.2,
            budget_j=0.02, cpu_min_hz=2e8, cpu_max_hz=2e9, bandwidth_hz=4e6, noise_w_per_hz=10 ** -20.4)

    two = pair(far.value)

    def done_ms(device, band_hz):
        """When a device with this slice is done; nothing where it can't keep its budget."""
        try:
            alone = replace(two.subset([device]), bandwidth_hz=band_hz)
            return 1e3 * allocate(alone, "equal").round_s
        except Infeasible:
            return np.nan

    best = allocate(two, "sao")
    shares = np.arange(5, 96)
    near_ms = np.array([done_ms(0, (1 - s / 100) * two.bandwidth_hz) for s in shares])
    far_ms = np.array([done_ms(1, s / 100 * two.bandwidth_hz) for s in shares])
    return best, far_ms, near_ms, pair, shares, two


@app.cell(hide_code=True)
def _(best, far_ms, lines, mo, near_ms, np, share, shares, two):
    now_ms = float(np.maximum(near_ms, far_ms)[share.value - 5])
    best_share = 100 * best.bandwidth_hz[1] / two.bandwidth_hz
    can = now_ms == now_ms      # not a number where a device can't
    _said = f"The round takes **{now_ms:.1f} ms**" if can else "With so little band, a device **can't keep its budget**"
    of_two = f"{_said}; the best possible is **{1e3 * best.round_s:.1f} ms**."
    mo.vstack([
        mo.md(of_two),
        mo.Html(lines(shares, {"near device is done": near_ms, "far device is done": far_ms}, up="ms",
                      across="share of the far device (%)", most=2.5e3 * best.round_s,
                      points={"you": (share.value, now_ms), "SAO": (best_share, 1e3 * best.round_s)}).svg()),
    ])
    return now_ms, of_two


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    ## Ten devices

    The same with a cohort drawn from the lab's cell. The area of a disc on the map is a device's share of the band.
    """)
    return


@app.cell(hide_code=True)
def _(controls, slider):
    cohort = slider("cohort size", range(2, 31), 10)
    bandwidth = slider("bandwidth (MHz)", range(2, 62, 2), 20)
    draw = slider("draw", range(51), 4)
    controls(cohort, bandwidth, draw)
    return bandwidth, cohort, draw


@app.cell(hide_code=True)
def _(Settings, bandwidth, charts, cohort, draw, headline, look, mo, of_two, rounds, side_by_side, verdict):
    settings = Settings(cohort=cohort.value, bandwidth_mhz=bandwidth.value, seed=draw.value)
    view = look(settings.scenario(), settings.methods, settings.seed)
    now = f"Two devices: {of_two} The cohort: {rounds(view)}"
    mo.Html(side_by_side(
        headline(view, answer) + charts.gantt(view, answer).svg() + charts.cell_map(view, answer).svg()
        for answer in view.answers) + f"<p>{verdict(view)}</p>")
    return (now,)


@app.cell(hide_code=True)
def _(pages, pair):
    weaker = float(pair(350).gain[0] / pair(350).gain[1])
    questions = (
        pages.Question("The far device moves to 350 m, the near one stays at 80 m and has a signal that is "
                       f"{weaker:.0f} times stronger. What share of the band must the **far** one get, so that the "
                       "round is shortest?", unit="%"),
        pages.Question("Which cut of the band makes the round of two devices shortest?",
                       ("Equal slices for both", "The one with the smallest sum of both times",
                        "The one with which both are done at the same moment")),
        pages.Question("In draw 3 of the ten devices, equal shares have no plan: one device can't keep its budget. "
                       "The band and the budgets are what they are. Is there a plan under SAO?",
                       ("No: the budget is too small under any method", "Yes: with another cut of the same band")),
    )
    predictions = pages.ask(questions)
    return predictions, questions, weaker


@app.cell(hide_code=True)
def _(Settings, allocate, far_ms, look, near_ms, np, pages, pair, predictions, questions, shares, weaker):
    def _at_350():
        _far = pair(350)
        _best, _equal = allocate(_far, "sao"), allocate(_far, "equal")
        return pages.Outcome(100 * float(_best.bandwidth_hz[1] / _far.bandwidth_hz), f"""
        The rate grows with the slice itself, but only with the **logarithm** of the signal: b log₂(1 + J/b). A signal
        {weaker:.0f} times stronger is {np.log2(weaker):.0f} doublings ahead, and each of them adds as much as the one
        before. So the far device needs {_best.bandwidth_hz[1] / _best.bandwidth_hz[0]:.1f} times the slice of the near
        one, no more, and the round takes {1e3 * _best.round_s:.1f} ms instead of {1e3 * _equal.round_s:.1f} ms with
        equal slices.
        """)

    def _which_cut():
        _last = np.maximum(near_ms, far_ms)
        _cuts = dict(zip(questions[1].choices, (
            50, shares[np.nanargmin(near_ms + far_ms)], shares[np.nanargmin(abs(near_ms - far_ms))]), strict=True))
        _took = {what: float(_last[cut - 5]) for what, cut in _cuts.items()}
        return pages.Outcome(min(_took, key=_took.get), f"""
        {'. '.join(f'{what} ({_cuts[what]} % for the far one): {ms:.1f} ms' for what, ms in _took.items())}.
        Left of the crossing the far device is last, and a little more band for it shortens the round; right of it the
        near one is last. Only if both finish **together**, moving bandwidth from one to the other gains nothing.
        The near device finishes later than it could, but no device waits for it. The same holds in the larger cohort:
        under SAO all bars end at the same time.
        """)

    def _draw_3():
        _view = look(Settings(seed=3).scenario(), ("equal", "sao"), 3)
        _equal, _sao = _view.answers
        return pages.Outcome(questions[2].choices[_sao.plan is not None], f"""
        Equal shares: {_equal.reason or f'{1e3 * _equal.plan.round_s:.1f} ms'}. SAO:
        {_sao.reason or f'{1e3 * _sao.plan.round_s:.1f} ms, every budget kept'}. A small slice means a long upload, and
        sending costs power times time: for a far device with an equal slice the upload alone costs more than its whole
        budget. SAO cuts the band by need; equal shares waste it on devices that can do without.
        """)

    answers = (_at_350, _which_cut, _draw_3)
    pages.replies(questions, predictions, answers)
    return (answers,)


@app.cell(hide_code=True)
def _(cut, lesson, pages):
    pages.exercise(lesson, cut)
    return


@app.cell(hide_code=True)
def _(best, far, now_ms, pages):
    _longer = 100 * (now_ms / (1e3 * best.round_s) - 1)
    conditions = (
        pages.Condition("the far device is 350 m away", far.value == 350, f"{far.value} m"),
        pages.Condition("at most 0.5 % longer than the best", _longer <= 0.5,
                        f"{_longer:.1f} % longer" if _longer == _longer else "a device can't keep its budget"),
    )
    pages.check(conditions)
    return (conditions,)


@app.cell(hide_code=True)
def _(lesson, pages):
    pages.end(lesson)
    return


if __name__ == "__main__":
    app.run()

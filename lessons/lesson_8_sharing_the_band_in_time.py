# /// script
# [tool.marimo.display]
# theme = "system"      # light or dark, as the reader's screen is
# ///
"""Lesson 8: the band shared in time."""

import marimo

app = marimo.App(width="medium", app_title="8. Sharing the band in time", css_file="lessons.css")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from netsim.allocation.tdma import single_device_bound
    from netsim.lab import charts, pages
    from netsim.lab.captions import headline, rounds, verdict
    from netsim.lab.round_model import look
    from netsim.lab.settings import Settings
    from netsim.lab.widgets import controls, dropdown, side_by_side, slider

    return (
        Settings, charts, controls, dropdown, headline, look, mo, pages, rounds, side_by_side, slider,
        single_device_bound,
        verdict,
    )


@app.cell(hide_code=True)
def _(pages):
    lesson = pages.Lesson(
        8, minutes=30,
        aim="You can say what SAO is the optimum of, when one after the other is shorter, and when it is not.",
        steps=(
            pages.Step({"under SAO the band is shared": "adaptive"}, "Unused bandwidth goes to the active uploads."),
            pages.Step({"model size (kbit)": 1200}, "Larger uploads: slices that lie idle cost more and more."),
            pages.Step({"model size (kbit)": 3640, "budgets (times 15 to 30 mJ)": 4},
                       "Now the uploads fill the round: in turns, devices wait for each other, and it turns round."),
        ),
        exercise=pages.Exercise(
            "The model stays at **448 kbit**. Find a cohort, budgets and a way to share the band with which the round "
            "under SAO is at least **10 % shorter** than one after the other.",
            {"cohort size": 20, "budgets (times 15 to 30 mJ)": 2, "under SAO the band is shared": "adaptive"}),
        leads="In turns or at once: every round here waits for its last device. A server need not.")
    pages.top(lesson)
    return (lesson,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # 8. Sharing the band in time

    Under SAO every device has a slice of the band for the whole round, and all end together. But a device needs its
    slice only while it sends: before that, the slice lies **idle**. The area below each round shows how much of the
    band is used.

    What if one device sends at a time, with the **whole** band? It is then on the air for
    $a_n = z_n / Q_n(B)$, a few milliseconds. The first device to finish computing is served first, so that

    $$T = \max_k \Bigl( r_k + \sum_{j:\, r_j \ge r_k} a_j \Bigr),$$

    where $r_k$ is when device $k$ has computed.
    """)
    return


@app.cell(hide_code=True)
def _(controls, dropdown, slider):
    size = slider("model size (kbit)", [50, 100, 200, 448, 800, 1200, 1600, 2400, 3640], 448)
    budgets = slider("budgets (times 15 to 30 mJ)", [1, 1.5, 2, 3, 4, 6], 1)
    cohort = slider("cohort size", range(2, 31), 10)
    draw = slider("draw", range(51), 0)
    sharing = dropdown("under SAO the band is shared", ["planned", "adaptive", "equal"], "planned")
    sliders = controls(size, budgets, cohort, draw, row=[sharing])
    sliders
    return budgets, cohort, draw, sharing, size, sliders


@app.cell(hide_code=True)
def _(Settings, look):
    from dataclasses import replace

    def both(kbit=448, times=1, devices=10, seed=0, how="planned"):
        """The round under SAO, its band shared so, and one after the other."""
        def _seen(method, sharing):
            _chosen = Settings(model_kbit=kbit, budget_mj=(15 * times, 30 * times), sharing=sharing, cohort=devices,
                               seed=seed, methods=(method,))
            return look(_chosen.scenario(), _chosen.methods, _chosen.seed)

        _sao = _seen("sao", how)
        return replace(_sao, answers=(*_sao.answers, *_seen("tdma", "planned").answers))

    return (both,)


@app.cell(hide_code=True)
def _(both, budgets, charts, cohort, draw, headline, mo, rounds, sharing, side_by_side, size, single_device_bound,
      verdict):
    view = both(size.value, budgets.value, cohort.value, draw.value, sharing.value)
    bound_s = single_device_bound(view.problem)
    least = (f"No schedule whatsoever is shorter than {1e3 * bound_s:.1f} ms: so long the slowest device takes even "
             "with the whole band to itself." if bound_s < float("inf") else "")
    now = f"{rounds(view)} {least}"
    mo.Html(side_by_side(
        headline(view, answer) + charts.gantt(view, answer).svg() + charts.band(view, answer).svg()
        + charts.energy(view, answer).svg() for answer in view.answers) + f"<p>{verdict(view)} {least}</p>")
    return bound_s, now, view


@app.cell(hide_code=True)
def _(mo):
    mo.md("""
    **What this picture leaves out.** Rates follow Shannon's formula here, also at 50 dB, where real radios have a
    highest rate; and between two devices there is no silence. With at most 5.55 bit/s/Hz and 2 ms of silence, one after
    the other is longer than SAO in 26 of 100 layouts of the paper's cell, instead of none. Receiving, synchronising and
    control cost nothing here either.
    """)
    return


@app.cell(hide_code=True)
def _(pages):
    questions = (
        pages.Question("Thirty devices instead of ten, with 448 kbit and budgets of 15 to 30 mJ, draw 0. One after the "
                       "other, the round becomes", ("about three times as long", "about half as long again",
                                                    "hardly longer")),
        pages.Question("One after the other takes about half the energy of SAO at the start of this lesson. Where is "
                       "most of it saved?", ("In computing: who waits for a turn can compute slowly",
                                        "In sending: with the whole band it is soon over",
                                        "In both about as much")),
        pages.Question("At 1200 kbit, **all budgets are doubled**. Whose round gets much shorter?",
                       ("Of both: more energy, faster CPUs", "Of SAO alone", "Of one after the other alone",
                        "Of neither")),
    )
    predictions = pages.ask(questions)
    return predictions, questions


@app.cell(hide_code=True)
def _(both, pages, predictions, questions):
    def _thirty():
        _few, _many = both().plans[1], both(devices=30).plans[1]
        _ratio = _many.round_s / _few.round_s
        return pages.Outcome(questions[0].choices[2 if _ratio < 1.15 else 1 if _ratio < 2 else 0], f"""
        {1e3 * _few.round_s:.1f} ms become {1e3 * _many.round_s:.1f} ms (SAO: {1e3 * both().plans[0].round_s:.1f} to
        {1e3 * both(devices=30).plans[0].round_s:.1f} ms). With the whole band an upload is a matter of milliseconds:
        ten take {1e3 * _few.upload_s.sum():.0f} ms together, thirty {1e3 * _many.upload_s.sum():.0f} ms, and they are
        sent while slower CPUs still compute. As a rule of thumb, one after the other wins while these add up to less
        than about 0.7 of SAO's round.
        """)

    def _saved():
        _sao, _turns = both().plans
        _compute, _send = (1e3 * float(_sao.compute_energy_j.sum() - _turns.compute_energy_j.sum()),
                           1e3 * float((_sao.device_energy_j - _sao.compute_energy_j).sum()
                                       - (_turns.device_energy_j - _turns.compute_energy_j).sum()))
        _what = 0 if _compute > 1.2 * _send else 1 if _send > 1.2 * _compute else 2
        return pages.Outcome(questions[1].choices[_what], f"""
        {_send:.0f} mJ in sending, {_compute:.0f} mJ in computing. With a fixed transmit power a second on the air costs
        the same whatever the band, so a short upload is a cheap one. And whose turn comes late computes slowly, which
        is cheap, too: computing costs the square of the clock. SAO is the exact optimum, but among plans in which
        **bands are fixed** for the round.
        """)

    def _twice_the_budgets():
        _once, _twice = both(1200, 1).plans, both(1200, 2).plans
        _shorter = [1 - after.round_s / before.round_s for before, after in zip(_once, _twice, strict=True)]
        _what = {(True, True): 0, (True, False): 1, (False, True): 2, (False, False): 3}[
            _shorter[0] > 0.05, _shorter[1] > 0.05]
        return pages.Outcome(questions[2].choices[_what], f"""
        SAO goes from {1e3 * _once[0].round_s:.1f} to {1e3 * _twice[0].round_s:.1f} ms, one after the other from
        {1e3 * _once[1].round_s:.1f} to {1e3 * _twice[1].round_s:.1f} ms. Its uploads add up to
        {1e3 * _twice[1].upload_s.sum():.0f} ms and fill the round: it is the air that is short, and no CPU helps with
        that. A weak device gets little out of a wide band, since its rate can't exceed J / ln 2, and still holds all of
        it while it sends.
        """)

    answers = (_thirty, _saved, _twice_the_budgets)
    pages.replies(questions, predictions, answers)
    return (answers,)


@app.cell(hide_code=True)
def _(lesson, pages, sliders):
    pages.exercise(lesson, sliders)
    return


@app.cell(hide_code=True)
def _(pages, size, view):
    _shorter = 100 * (1 - view.plans[0].round_s / view.plans[1].round_s) if len(view.plans) == 2 else float("nan")
    conditions = (
        pages.Condition("a model of 448 kbit or more", size.value >= 448, f"{size.value} kbit"),
        pages.Condition("SAO at least 10 % shorter", _shorter >= 10,
                        "no plan" if len(view.plans) < 2 else
                        f"{abs(_shorter):.1f} % {'shorter' if _shorter >= 0 else 'longer'}"),
    )
    pages.check(conditions)
    return (conditions,)


@app.cell(hide_code=True)
def _(lesson, pages):
    pages.end(lesson)
    return


if __name__ == "__main__":
    app.run()

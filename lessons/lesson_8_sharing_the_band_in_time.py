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

    from netsim.allocation.alone import solo_bound
    from netsim.lab import charts
    from netsim.lab.settings import Settings
    from netsim.lab.view import look
    from netsim.lab.widgets import controls, side_by_side, slider
    from netsim.lab.words import headline, verdict

    return Settings, charts, controls, headline, look, mo, side_by_side, slider, solo_bound, verdict


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # 8. Sharing the band in time

    Under SAO every device has a slice of the band for the whole round, and all end together. But a device needs its
    slice only while it sends: before that, the slice lies **idle**. The area below each round shows how much of the
    band is used.

    What if one device sends at a time, with the **whole** band? It is then on the air for
    $a_n = z_n / Q_n(B)$, a few milliseconds. Whoever is ready first is served first, so that

    $$T = \max_k \Bigl( r_k + \sum_{j:\, r_j \ge r_k} a_j \Bigr),$$

    where $r_k$ is when device $k$ has computed.
    """)
    return


@app.cell(hide_code=True)
def _(controls, mo, slider):
    size = slider("model size (kbit)", [50, 100, 200, 448, 800, 1200, 1600, 2400, 3640], 448)
    budgets = slider("budgets (times 15 to 30 mJ)", [1, 1.5, 2, 3, 4, 6], 1)
    cohort = slider("cohort size", range(2, 31), 10)
    draw = slider("draw", range(51), 0)
    sharing = mo.ui.dropdown(["planned", "adaptive", "equal"], value="planned", label="under SAO the band is shared")
    controls(size, budgets, cohort, draw, row=[sharing])
    return budgets, cohort, draw, sharing, size


@app.cell(hide_code=True)
def _(Settings, budgets, charts, cohort, draw, headline, look, mo, sharing, side_by_side, size, solo_bound, verdict):
    from dataclasses import replace

    def seen(method, how):
        chosen = Settings(model_kbit=size.value, budget_mj=(15 * budgets.value, 30 * budgets.value), sharing=how,
                          cohort=cohort.value, seed=draw.value, methods=(method,))
        return look(chosen.scenario(), chosen.methods, chosen.seed)

    view = seen("sao", sharing.value)
    view = replace(view, answers=(*view.answers, *seen("tdma", "planned").answers))
    bound_s = solo_bound(view.problem)
    least = (f"No schedule whatsoever is shorter than {1e3 * bound_s:.1f} ms: so long the slowest device takes even "
             "with the whole band to itself." if bound_s < float("inf") else "")
    mo.Html(side_by_side(
        headline(view, answer) + charts.gantt(view, answer).svg() + charts.band(view, answer).svg()
        + charts.energy(view, answer).svg() for answer in view.answers) + f"<p>{verdict(view)} {least}</p>")
    return bound_s, view


@app.cell(hide_code=True)
def _(mo):
    mo.md("## Questions")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.accordion({
        "SAO is the optimum. How can one after the other be shorter, and take half the energy?": mo.md("""
        SAO is the exact optimum among plans in which **bands are fixed** for the round. With a fixed transmit power a
        second on the air costs the same whatever the band, so a short upload saves energy; the budget then pays for a
        faster CPU. And whose turn comes late computes slowly, which is cheap: computing costs the square of the clock.
        """),
        "Move the model size to 3640 kbit and the budgets to 4 times. Why does it turn round?": mo.md("""
        Now the uploads together fill the round: devices wait for each other instead of computing. A weak device gets
        little out of a wide band, since its rate can't exceed J / ln 2, and still holds all of it while it sends. As a
        rule of thumb, one after the other wins while the uploads with the whole band add up to less than about 0.7 of
        SAO's round. `adaptive` is never longer than planned: what is free goes to those who send.
        """),
        "What does this picture leave out?": mo.md("""
        Rates follow Shannon's formula here, also at 50 dB, where real radios have a highest rate; and between two
        devices there is no silence. With at most 5.55 bit/s/Hz and 2 ms of silence, one after the other is longer than
        SAO in 26 of 100 layouts of the paper's cell, instead of none. Receiving, synchronising and control cost nothing
        here either.
        """),
    })
    return


if __name__ == "__main__":
    app.run()

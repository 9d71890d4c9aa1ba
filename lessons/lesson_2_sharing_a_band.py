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
    from netsim.lab import charts
    from netsim.lab.curves import lines
    from netsim.lab.settings import Settings
    from netsim.lab.view import look
    from netsim.lab.widgets import controls, side_by_side, slider
    from netsim.lab.words import headline, verdict
    from netsim.physics import path_gain

    return (
        Infeasible, Problem, Settings, allocate, charts, controls, headline, lines, look, mo, np, path_gain, replace,
        side_by_side, slider, verdict,
    )


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
    controls(share, far)
    return far, share


@app.cell(hide_code=True)
def _(Infeasible, Problem, allocate, far, np, path_gain, replace):
    two = Problem(
        bits=448e3, cycles=1e8, capacitance=1e-28, gain=path_gain([80.0, far.value], 128.1, 37.6), power_w=0.2,
        budget_j=0.02, cpu_min_hz=2e8, cpu_max_hz=2e9, bandwidth_hz=4e6, noise_w_per_hz=10 ** -20.4)

    def done_ms(device, band_hz):
        """When a device with this slice is done; nothing where it can't keep its budget."""
        try:
            alone = replace(two.subset([device]), bandwidth_hz=band_hz)
            return 1e3 * allocate(alone, "equal").round_s
        except Infeasible:
            return np.nan

    best = allocate(two, "sao")
    return best, done_ms, two


@app.cell(hide_code=True)
def _(best, done_ms, lines, mo, np, share, two):
    shares = np.arange(5, 96)
    near_ms = [done_ms(0, (1 - s / 100) * two.bandwidth_hz) for s in shares]
    far_ms = [done_ms(1, s / 100 * two.bandwidth_hz) for s in shares]
    now_ms = float(np.maximum(near_ms[share.value - 5], far_ms[share.value - 5]))
    best_share = 100 * best.bandwidth_hz[1] / two.bandwidth_hz
    can = now_ms == now_ms      # not a number where a device can't
    said = f"The round takes **{now_ms:.1f} ms**" if can else "With so little band, a device **can't keep its budget**"
    mo.vstack([
        mo.md(f"{said}; the best possible is **{1e3 * best.round_s:.1f} ms**."),
        mo.Html(lines(shares, {"near device is done": near_ms, "far device is done": far_ms}, up="ms",
                      across="share of the far device (%)", most=2.5e3 * best.round_s,
                      points={"you": (share.value, now_ms), "SAO": (best_share, 1e3 * best.round_s)}).svg()),
    ])
    return


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
def _(Settings, bandwidth, charts, cohort, draw, headline, look, mo, side_by_side, verdict):
    settings = Settings(cohort=cohort.value, bandwidth_mhz=bandwidth.value, seed=draw.value)
    view = look(settings.scenario(), settings.methods, settings.seed)
    mo.Html(side_by_side(
        headline(view, answer) + charts.gantt(view, answer).svg() + charts.cell_map(view, answer).svg()
        for answer in view.answers) + f"<p>{verdict(view)}</p>")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("## Questions")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.accordion({
        "Why do the two curves cross exactly where the round is shortest?": mo.md("""
        Left of the crossing the far device is last, and a little more band for it shortens the round; right of it the
        near one is last. Only where both end **together** nothing can be gained by moving band from one to the other.
        In the larger cohort it is the same: under SAO all bars end at one line.
        """),
        "SAO gives the far device the larger slice. Is that fair to the near one?": mo.md("""
        The near device is done later than it could be, but nobody waits for it: it would have waited for the far one
        anyway. What it loses in band it does not lose in time. Fair here means that everybody ends together, not that
        everybody gets the same.
        """),
        "Draw 3 has no plan under equal shares, but one under SAO. How can that be?": mo.md("""
        A small slice means a long upload, and sending costs power times time. For a far device with an equal slice the
        upload alone costs more than its whole budget. SAO sees that and cuts the band by need: equal shares waste band
        on devices that can do without.
        """),
    })
    return


if __name__ == "__main__":
    app.run()

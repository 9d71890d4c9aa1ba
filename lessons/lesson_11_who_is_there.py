# /// script
# [tool.marimo.display]
# theme = "system"      # light or dark, as the reader's screen is
# ///
"""Lesson 11: devices that go and come back."""

import marimo

app = marimo.App(width="medium", app_title="11. Who is there", css_file="lessons.css")


@app.cell(hide_code=True)
def _():
    import math

    import marimo as mo

    from netsim import load_scenario, simulate
    from netsim.lab.curves import lines
    from netsim.lab.widgets import controls, slider

    return controls, lines, load_scenario, math, mo, simulate, slider


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # 11. Who is there

    Phones go into pockets, tunnels and aeroplane mode. Here each of them is by turns **there**, for a time of mean
    $m_1$, and **away**, for one of mean $m_0$, both exponential. So at any moment the share $m_1 / (m_1 + m_0)$ of
    them is there, and only they are chosen. Whoever is there now stays for another time $T$ with probability
    $e^{-T/m_1}$, and all ten of a cohort do with $e^{-10\,T/m_1}$.

    A device that goes in mid-round pauses and goes on when it is back, or loses its work and starts over, or is
    dropped. A deadline ends the waiting.
    """)
    return


@app.cell(hide_code=True)
def _(controls, mo, slider):
    there = slider("there for (s, mean)", [1, 2, 4, 10, 30, 100], 4)
    away = slider("away for (s, mean)", [0.5, 1, 2, 5, 20], 2)
    deadline = slider("deadline (ms; 0: none)", [0, 150, 200, 300, 500, 1000, 3000], 0)
    work = mo.ui.dropdown(["pause", "lose", "drop"], value="pause", label="who goes in mid-round")
    sharing = mo.ui.dropdown(["planned", "adaptive"], value="planned", label="the band is shared")
    controls(there, away, deadline, row=[work, sharing])
    return away, deadline, sharing, there, work


@app.cell(hide_code=True)
def _(away, deadline, load_scenario, sharing, simulate, there, work):
    def played(*absences):
        return simulate(load_scenario("lab", [
            "selection.method=fedavg", "rounds.first=cohort", "end.rounds=80", f"allocation.sharing={sharing.value}",
            *([f"rounds.deadline={deadline.value} ms"] if deadline.value else []), *absences]), seed=2, learning=False)

    _table = f'{{ model = "on-off", on = "{there.value} s", off = "{away.value} s", work = "{work.value}" }}'
    run, still = played(f"population.phone.availability={_table}"), played()
    return run, still


@app.cell(hide_code=True)
def _(math, mo, run, still, there):
    took_s, still_s = (each.rounds["t1"].max() for each in (run, still))
    usual_s = still.rounds["round_s"].median()
    arrived, dropped = run.rounds["arrived"].sum(), run.rounds["dropped"].sum()
    mo.md(f"""
    **{run.last_round} rounds take {took_s:.1f} s**; if nobody ever went, {still_s:.1f} s. The median round takes
    {1e3 * run.rounds['round_s'].median():.0f} ms, the mean one {1e3 * run.rounds['round_s'].mean():.0f} ms.
    {arrived} updates arrive, {dropped} do not. In {math.exp(-10 * usual_s / there.value):.0%} of the rounds all ten
    should stay.
    """)
    return arrived, dropped, still_s, took_s


@app.cell(hide_code=True)
def _(lines, mo, run, still):
    mo.Html(lines(run.rounds["round"], {"as it went": 1e3 * run.rounds["round_s"],
                                        "if nobody went": 1e3 * still.rounds["round_s"]},
                  across="round", up="ms").svg()
            + lines(run.rounds["round"], {"updates that arrive": run.rounds["arrived"]}, across="round",
                    up="devices").svg())
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("## Questions")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.accordion({
        "The median round is as long as ever. Why does the run take four times as long?": mo.md("""
        A round waits for its last device. Seven rounds of ten see nobody go; in the others it waits until the one is
        back, 2 s instead of 0.14. A few such rounds are most of the run: 80 rounds take 44.9 s instead of 10.8. Where a
        few cases are that much worse than the rest, the mean and not the median is what one pays.
        """),
        "Set a deadline of 200 ms. What does it cost, and whom?": mo.md("""
        The run takes 12.0 s, and 24 of 800 updates are lost, with the energy that went into them. They are not lost at
        random if some devices go more often than others: their data is heard less. A server that does not wait
        (`fedbuff`) or that asks more than it needs (`first-k`) pays in other coin: stale updates, or work thrown away.
        """),
        "Who loses its work starts over. When is that much worse than a pause?": mo.md("""
        When the work lasts about as long as a device stays. Undisturbed work of length w then takes
        (exp(w / m1) - 1)(m1 + m0) on average, against w (1 + m0 / m1) with a pause: nearly the same for w well below
        m1, and without bound beyond. Move "there for" to 1 s and compare the two. It is a reason to keep checkpoints on
        the device, or to give it less to do.
        """),
    })
    return


if __name__ == "__main__":
    app.run()

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
    from netsim.lab import pages
    from netsim.lab.curves import lines
    from netsim.lab.widgets import controls, dropdown, slider

    return controls, dropdown, lines, load_scenario, math, mo, pages, simulate, slider


@app.cell(hide_code=True)
def _(pages):
    lesson = pages.Lesson(
        11, minutes=25,
        aim="You can say what devices that go and come back cost a server that waits, and what a deadline costs.",
        steps=(
            pages.Step({"there for (s, mean)": 100},
                       "Phones hardly ever leave: the run is almost as short as without absences."),
            pages.Step({"away for (s, mean)": 20},
                       "Phones stay away longer: the mean round time grows, the median does not."),
            pages.Step({"deadline (ms; 0: none)": 200},
                       "A deadline restores almost the whole speed, at the cost of a few updates."),
            pages.Step({"there for (s, mean)": 1}, "In most rounds a phone leaves: now the median grows, too."),
        ),
        exercise=pages.Exercise(
            "Phones stay for **4 s** and go for **2 s**. Get the 80 rounds done in less than **11 s**, with at least "
            "**775** of the 800 updates.", {"deadline (ms; 0: none)": 150, "the band is shared": "adaptive"}),
        leads="That was the last lesson. In the lab you can design your own cell, download it as a scenario file, and "
              "simulate it with `netsim run`.")
    pages.top(lesson)
    return (lesson,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # 11. Who is there

    Phones go into pockets, tunnels and aeroplane mode. In this lesson each phone alternates between **there** and
    **away**, with exponential durations of mean $m_1$ and $m_0$. At any moment a share $m_1 / (m_1 + m_0)$ of the
    phones is there, and only these can be selected. A phone that is there now stays for another time $T$ with
    probability $e^{-T/m_1}$, and all ten phones of a cohort stay with probability $e^{-10\,T/m_1}$.

    A device that leaves during a round pauses its job until it returns, or loses its work and starts over, or is
    dropped. A deadline ends the waiting.
    """)
    return


@app.cell(hide_code=True)
def _(controls, dropdown, slider):
    there = slider("there for (s, mean)", [1, 2, 4, 10, 30, 100], 4)
    away = slider("away for (s, mean)", [0.5, 1, 2, 5, 20], 2)
    deadline = slider("deadline (ms; 0: none)", [0, 150, 200, 300, 500, 1000, 3000], 0)
    work = dropdown("who goes in mid-round", ["pause", "restart", "abort"], "pause")
    sharing = dropdown("the band is shared", ["planned", "adaptive"], "planned")
    sliders = controls(there, away, deadline, row=[work, sharing])
    sliders
    return away, deadline, sharing, sliders, there, work


@app.cell(hide_code=True)
def _(away, deadline, load_scenario, sharing, simulate, there, work):
    def played(*changes, limit_ms=deadline.value):
        """Eighty rounds, the band shared as the page says."""
        return simulate(load_scenario("lab", [
            "selection.method=fedavg", "rounds.first=cohort", "end.rounds=80", f"cell.scheduler={sharing.value}",
            *([f"rounds.deadline={limit_ms} ms"] if limit_ms else []), *changes]), seed=2, learning=False)

    def absent(on_s=there.value, off_s=away.value):
        """Phones that go and come back as the page says, but for what is given here."""
        _table = f'{{ model = "on-off", on = "{on_s} s", off = "{off_s} s", on_interrupt = "{work.value}" }}'
        return f"population.phone.availability={_table}"

    run, still = played(absent()), played()
    return absent, played, run, still


@app.cell(hide_code=True)
def _(math, mo, run, still, there):
    took_s, still_s = (each.rounds["t1"].max() for each in (run, still))
    usual_s = still.rounds["round_s"].median()
    arrived, dropped = int(run.rounds["arrived"].sum()), int(run.rounds["dropped"].sum())
    now = (f"**{run.last_round} rounds take {took_s:.1f} s**; without absences, {still_s:.1f} s. The median round "
           f"takes {1e3 * run.rounds['round_s'].median():.0f} ms, the mean one "
           f"{1e3 * run.rounds['round_s'].mean():.0f} ms. {arrived} updates arrive, {dropped} do not. In "
           f"{math.exp(-10 * usual_s / there.value):.0%} of the rounds all ten should stay.")
    mo.md(now)
    return arrived, dropped, now, still_s, took_s, usual_s


@app.cell(hide_code=True)
def _(lines, mo, run, still):
    mo.Html(lines(run.rounds["round"], {"as it went": 1e3 * run.rounds["round_s"],
                                        "without absences": 1e3 * still.rounds["round_s"]},
                  across="round", up="ms").svg()
            + lines(run.rounds["round"], {"updates that arrive": run.rounds["arrived"]}, across="round",
                    up="devices").svg())
    return


@app.cell(hide_code=True)
def _(pages):
    questions = (
        pages.Question("Set a deadline of **200 ms**, with the other controls as they are; at the start, every third "
                       "phone is away at any moment. What share of the updates is lost?", unit="% of the updates",
                       within=0.3),
        pages.Question("Phones stay for 4 s and go for **20 s** instead of 2 s, without a deadline. Which becomes "
                       "several times as long?",
                       ("The median round and the mean round", "The median round only", "The mean round only",
                        "Neither: only phones that are there are selected")),
        pages.Question("A job takes as long as a phone stays, on average. Phones that go can pause it, or lose their "
                       "work and start over. How many times as long does a job take on average if work is lost?",
                       unit="times", within=0.15),
    )
    predictions = pages.ask(questions)
    return predictions, questions


@app.cell(hide_code=True)
def _(absent, math, pages, played, predictions, questions, still_s, there, took_s, usual_s):
    def _lost():
        _hurried = played(absent(), limit_ms=200)
        _missing = int(_hurried.rounds["dropped"].sum())
        _of = _missing + int(_hurried.rounds["arrived"].sum())
        return pages.Outcome(100 * _missing / _of, f"""
        {_missing} of {_of}. A phone that is away is not selected. Only updates of phones that leave during a round are
        lost, and a round is short compared with the {there.value:g} s that a phone stays. The run takes
        {_hurried.rounds['t1'].max():.1f} s; with the current settings {took_s:.1f} s, and {still_s:.1f} s without
        absences. But if some devices leave more often than others, updates are not lost at random: the model learns
        less from their data. A server that does not wait (`fedbuff`) or
        that asks more than it needs (`first-k`) pays in other coin: stale updates, or work thrown away.
        """)

    def _median_or_mean():
        _times = [(each.rounds["round_s"].median(), each.rounds["round_s"].mean()) for each in (
            played(absent(4, off_s), limit_ms=0) for off_s in (2, 20))]
        _grown = tuple(after > 2 * before for before, after in zip(*_times, strict=True))
        _what = {(True, True): 0, (True, False): 1, (False, True): 2, (False, False): 3}[_grown]
        return pages.Outcome(questions[1].choices[_what], f"""
        The median goes from {1e3 * _times[0][0]:.0f} to {1e3 * _times[1][0]:.0f} ms, the mean from
        {1e3 * _times[0][1]:.0f} to {1e3 * _times[1][1]:.0f} ms. A round waits for its last device. In most rounds,
        {math.exp(-10 * usual_s / 4):.0%} of them, no phone leaves. The others wait until the phone returns. These few
        rounds take most of the run: where a few cases are that much worse than the rest, the mean and not the median is
        what one pays.
        """)

    def _work_lost():
        _stay_s, _away_s = there.value, 2.0
        _paused, _over = _stay_s * (1 + _away_s / _stay_s), (math.exp(1) - 1) * (_stay_s + _away_s)
        _short = (math.exp(usual_s / _stay_s) - 1) / (usual_s / _stay_s)
        return pages.Outcome(_over / _paused, f"""
        e − 1. Undisturbed work of length w takes (exp(w / m₁) − 1)(m₁ + m₀) on average if it is lost, against
        w (1 + m₀ / m₁) with a pause: for w = m₁ = {_stay_s:g} s and m₀ = {_away_s:g} s, {_over:.1f} s against
        {_paused:.1f} s. The jobs of this page, of about {1e3 * usual_s:.0f} ms, take {_short:.2f} times as long, nearly
        the same; for work much longer than a phone stays it grows without bound. It is a reason to keep checkpoints on
        the device, or to give it less to do.
        """)

    answers = (_lost, _median_or_mean, _work_lost)
    pages.replies(questions, predictions, answers)
    return (answers,)


@app.cell(hide_code=True)
def _(lesson, pages, sliders):
    pages.exercise(lesson, sliders)
    return


@app.cell(hide_code=True)
def _(arrived, away, pages, there, took_s):
    conditions = (
        pages.Condition("phones stay for 4 s and go for 2 s", (there.value, away.value) == (4, 2),
                        f"{there.value:g} s and {away.value:g} s"),
        pages.Condition("80 rounds in less than 11 s", took_s < 11, f"{took_s:.2f} s"),
        pages.Condition("at least 775 updates arrive", arrived >= 775, f"{arrived} updates"),
    )
    pages.check(conditions)
    return (conditions,)


@app.cell(hide_code=True)
def _(lesson, pages):
    pages.end(lesson)
    return


if __name__ == "__main__":
    app.run()

# /// script
# [tool.marimo.display]
# theme = "system"      # light or dark, as the reader's screen is
# ///
"""Lesson 3: an energy budget sets the clock."""

import marimo

app = marimo.App(width="medium", app_title="3. Energy budgets", css_file="lessons.css")


@app.cell(hide_code=True)
def _():
    import marimo as mo
    import numpy as np

    from netsim.allocation import Problem
    from netsim.lab import pages
    from netsim.lab.curves import lines
    from netsim.lab.widgets import controls, slider
    from netsim.physics import bandwidth_for_rate, path_gain

    return Problem, bandwidth_for_rate, controls, lines, mo, np, pages, path_gain, slider


@app.cell(hide_code=True)
def _(pages):
    lesson = pages.Lesson(
        3, minutes=25,
        aim="You can say which clock an energy budget allows, when more energy is worth nothing, and what a shorter "
            "round costs in band.",
        steps=(
            pages.Step({"energy budget e (mJ)": 50}, "More energy: a faster clock, more time to send, less band."),
            pages.Step({"energy budget e (mJ)": 70}, "The clock is at its highest: the rest of the energy lies idle."),
            pages.Step({"length of the round T (ms)": 100}, "A shorter round: the clock rises less than the band."),
            pages.Step({"transmit power (dBm)": 30}, "A strong sender empties its budget: it has to be quick."),
        ),
        exercise=pages.Exercise(
            "A round of **100 ms** with a budget of **15 mJ**: find a transmit power with which the device needs less "
            "than **3.55 MHz**.",
            {"length of the round T (ms)": 100, "energy budget e (mJ)": 15, "transmit power (dBm)": 18}),
        leads="So far a single round. Over many rounds with many devices: who holds up whom?")
    pages.top(lesson)
    return (lesson,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # 3. Energy budgets and the CPU cubic

    A device has an energy budget $e$ for the round. Computing takes $\frac{\alpha}{2} U f^2$ of it, sending takes $p$
    times the upload time. Say the round is to last $T$ seconds. A clock frequency $f$ then leaves two limits for the
    upload:

    $$t^\text{up} \le T - \frac{U}{f} \quad\text{(time)}, \qquad
    t^\text{up} \le \frac{1}{p}\Bigl(e - \frac{\alpha}{2} U f^2\Bigr) \quad\text{(energy)}.$$

    A faster clock leaves more time and less energy. The **best** clock is where the two meet, since there the upload
    may take longest, and a long upload needs little bandwidth. Setting them equal gives an equation of third degree in
    $f$: the paper's cubic.
    """)
    return


@app.cell(hide_code=True)
def _(controls, slider):
    round_ms = slider("length of the round T (ms)", range(60, 305, 5), 150)
    budget = slider("energy budget e (mJ)", range(5, 81), 25)
    power = slider("transmit power (dBm)", range(10, 31), 23)
    cpu_max = slider("highest clock (GHz)", [round(0.1 * tenths, 1) for tenths in range(6, 31)], 2.0)
    sliders = controls(round_ms, budget, power, cpu_max)
    sliders
    return budget, cpu_max, power, round_ms, sliders


@app.cell(hide_code=True)
def _(Problem, bandwidth_for_rate, budget, cpu_max, np, path_gain, power, round_ms):
    def best_clock(t_ms=round_ms.value, e_mj=budget.value, dbm=power.value, most_ghz=cpu_max.value):
        """The problem, the best clock (GHz), what it leaves for the upload (s), and the band that this takes (MHz)."""
        _problem = Problem(
            bits=448e3, cycles=1e8, capacitance=1e-28, gain=path_gain(200.0, 128.1, 37.6),
            power_w=10 ** (dbm / 10 - 3), budget_j=1e-3 * e_mj, cpu_min_hz=2e8, cpu_max_hz=1e9 * most_ghz,
            bandwidth_hz=20e6, noise_w_per_hz=10 ** -20.4)
        _round_s, _budget_s = 1e-3 * t_ms, float(_problem.budget_j[0] / _problem.power_w[0])
        _work = float(_problem.compute_weight[0] * _problem.cycles[0] ** 2 / _problem.power_w[0])
        _roots = np.roots([1.0, _budget_s - _round_s, 0.0, -_work])          # of t^3 - (T - e/p) t^2 - K
        _crossing_s = max(root.real for root in _roots if abs(root.imag) < 1e-9)
        _compute_s = max(_crossing_s, float(_problem.cycles[0] / _problem.cpu_max_hz[0]))
        _upload_s = min(_round_s - _compute_s, _budget_s - _work / _compute_s**2)
        _rate = _problem.bits / max(_upload_s, 1e-9)
        _need_mhz = 1e-6 * float(bandwidth_for_rate(_rate, _problem.snr_hz)[0])
        return _problem, 1e-9 * float(_problem.cycles[0]) / _compute_s, _upload_s, _need_mhz

    problem, best_ghz, upload_s, need_mhz = best_clock()
    return best_clock, best_ghz, need_mhz, problem, upload_s


@app.cell(hide_code=True)
def _(best_ghz, budget, cpu_max, lines, mo, need_mhz, np, problem, round_ms, upload_s):
    ghz = np.linspace(0.2, 3.0, 200)
    cycles, power_w = float(problem.cycles[0]), float(problem.power_w[0])
    by_time = round_ms.value - 1e3 * cycles / (1e9 * ghz)
    by_energy = 1e3 * (1e-3 * budget.value - 1e-28 * cycles * (1e9 * ghz) ** 2) / power_w
    by_time, by_energy = (np.where(left > 0, left, np.nan) for left in (by_time, by_energy))
    clipped = best_ghz > 0.999 * cpu_max.value
    if need_mhz < 20:
        now = (f"The best clock is **{best_ghz:.2f} GHz**{', the highest there is' if clipped else ''}. It leaves "
               f"**{1e3 * upload_s:.1f} ms** to upload, and that takes **{need_mhz:.2f} MHz**.")
    else:
        now = "In such a round the device **can't be done within its budget**, whatever band of the cell it gets."
    mo.vstack([
        mo.md(now),
        mo.Html(lines(ghz, {"what time leaves for the upload": by_time, "what energy leaves for it": by_energy},
                      across="clock frequency (GHz)", up="ms", most=1.1 * round_ms.value,
                      points={"best clock": (best_ghz, 1e3 * upload_s)} if upload_s > 0 else None).svg()),
    ])
    return (now,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **Why it is a cubic.** Put $t = U/f$ for the compute time. The budget pays for $E = e/p$ seconds of sending, of
    which computing takes $K/t^2$ with $K = \frac{\alpha}{2} U^3 / p$. Setting $T - t = E - K/t^2$ and multiplying by
    $t^2$ gives $t^3 - (T - E)\,t^2 - K = 0$: third degree, with exactly one positive root.
    """)
    return


@app.cell(hide_code=True)
def _(pages):
    questions = (
        pages.Question("Leave the other sliders where they are and raise the budget step by step. At which budget does "
                       "more energy stop to help?", unit="mJ"),
        pages.Question("Halve the transmit power (3 dB less) at the same budget. How much band does the device need "
                       "then, with the other sliders as they are?",
                       ("More: its signal is weaker", "Less", "No band of this cell is enough")),
        pages.Question("With 25 mJ, 23 dBm and up to 2 GHz, the round is to last 75 ms instead of 150 ms. How many "
                       "times as much band does the device need?", unit="times", within=0.25),
    )
    predictions = pages.ask(questions)
    return predictions, questions


@app.cell(hide_code=True)
def _(best_clock, budget, cpu_max, pages, power, predictions, questions, round_ms):
    def _enough():
        _problem = best_clock()[0]
        _left_s = max(1e-3 * round_ms.value - float(_problem.cycles[0] / _problem.cpu_max_hz[0]), 0.0)
        _compute_j = float(_problem.compute_weight[0] * _problem.cpu_max_hz[0] ** 2)
        _send_j = float(_problem.power_w[0]) * _left_s
        return pages.Outcome(1e3 * (_compute_j + _send_j), f"""
        When the best clock reaches the highest one, {cpu_max.value} GHz. To compute at it takes
        {1e3 * _compute_j:.1f} mJ, and to send for all of the {1e3 * _left_s:.0f} ms that are left takes
        {1e3 * _send_j:.1f} mJ. Beyond that the device can't compute any faster, so the energy that is left over stays
        unused. **Then the delay binds, not the energy.** Lesson 6 is about an algorithm that forgets this case.
        """)

    def _half_the_power():
        _now, _half = (best_clock(dbm=dbm)[3] for dbm in (power.value, power.value - 3.0103))
        _best = min(range(31), key=lambda dbm: best_clock(dbm=dbm)[3])
        _what = questions[1].choices[2 if not _half < 20 else 1 if _half < _now else 0]
        return pages.Outcome(_what, f"""
        {'The device can not be done with either.' if not (_now < 20 or _half < 20) else
         f'{_now:.2f} MHz become {_half:.2f} MHz.' if _now < 20 and _half < 20 else
         'It can be done with one of the two powers alone.'} Both can happen. Less power makes a second of sending
        cheaper, so the budget lasts for a longer upload, but the signal is weaker and each second carries fewer bits.
        With a budget of {budget.value} mJ the two balance at about {_best} dBm. Looking for that power is the paper's
        power control, the method `sao-common-power` here.
        """)

    def _half_the_time():
        _long, _short = (best_clock(t_ms, 25, 23, 2.0) for t_ms in (150, 75))
        return pages.Outcome(_short[3] / _long[3], f"""
        The clock rises from {_long[1]:.2f} to {_short[1]:.2f} GHz only, since each cycle then costs more and sending
        wants its part of the budget too. So of the time that is left, computing takes most: the upload has
        {1e3 * _short[2]:.1f} ms instead of {1e3 * _long[2]:.1f} ms, and needs {_short[3]:.2f} MHz instead of
        {_long[3]:.2f} MHz. The last milliseconds of a round are the dear ones.
        """)

    answers = (_enough, _half_the_power, _half_the_time)
    pages.replies(questions, predictions, answers)
    return (answers,)


@app.cell(hide_code=True)
def _(lesson, pages, sliders):
    pages.exercise(lesson, sliders)
    return


@app.cell(hide_code=True)
def _(budget, need_mhz, pages, round_ms):
    conditions = (
        pages.Condition("a round of 100 ms at most", round_ms.value <= 100, f"{round_ms.value} ms"),
        pages.Condition("a budget of 15 mJ at most", budget.value <= 15, f"{budget.value} mJ"),
        pages.Condition("less than 3.55 MHz are needed", need_mhz < 3.55,
                        f"{need_mhz:.2f} MHz" if need_mhz < 20 else "more than the 20 MHz of the cell"),
    )
    pages.check(conditions)
    return (conditions,)


@app.cell(hide_code=True)
def _(lesson, pages):
    pages.end(lesson)
    return


if __name__ == "__main__":
    app.run()

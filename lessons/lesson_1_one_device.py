# /// script
# [tool.marimo.display]
# theme = "system"      # light or dark, as the reader's screen is
# ///
"""Lesson 1: one device, its CPU and its radio."""

import marimo

app = marimo.App(width="medium", app_title="1. One device", css_file="lessons.css")


@app.cell(hide_code=True)
def _():
    import marimo as mo
    import numpy as np

    from netsim.allocation import Problem, plan_for
    from netsim.lab import pages
    from netsim.lab.curves import lines
    from netsim.lab.formulas import device_formulas
    from netsim.lab.widgets import controls, slider
    from netsim.physics import LN2, fdma_rate, path_gain

    return (
        LN2, Problem, controls, device_formulas, fdma_rate, lines, mo, np, pages, path_gain, plan_for, slider,
    )


@app.cell(hide_code=True)
def _(pages):
    lesson = pages.Lesson(
        1, minutes=20,
        aim="You can split a device's time into computing and sending, and tell whether clock, band or power is short.",
        steps=(
            pages.Step({"CPU frequency (GHz)": 2.0},
                       "Twice the clock: half the time to compute, for four times the energy of computing."),
            pages.Step({"distance (m)": 500}, "Far away the signal is weak: sending takes longer, computing does not."),
            pages.Step({"distance (m)": 500, "bandwidth (MHz)": 20},
                       "Ten times the band, far from ten times the rate: see how close the dot is to the limit."),
            pages.Step({"bandwidth (MHz)": 0.1}, "Near, and short of band: now the upload dominates."),
        ),
        exercise=pages.Exercise(
            "A device is **400 m** away or farther and sends **448 kbit** or more, with **3 MHz** at most. Get it done "
            "in less than **100 ms**, with less than **25 mJ**.",
            {"distance (m)": 400, "bandwidth (MHz)": 3, "CPU frequency (GHz)": 1.4, "transmit power (dBm)": 23}),
        leads="One device has the band to itself. What if two of them, or ten, must share it?")
    pages.top(lesson)
    return (lesson,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # 1. One device: compute, then upload

    In a round of federated learning a device does two things, one after the other: it **computes** (trains the model
    on its own data) and it **uploads** (sends the new model to the base station). Nothing else takes time here. So

    $$t = \underbrace{\frac{U}{f}}_{\text{compute}} + \underbrace{\frac{z}{b \log_2(1 + J/b)}}_{\text{upload}},
    \qquad J = \frac{h\,p}{N_0}.$$

    $U$ are the CPU cycles of the training, $f$ the clock frequency, $z$ the size of the model in bits, $b$ the
    bandwidth, $p$ the transmit power, $h$ the gain of the channel, which falls with distance, and $N_0$ the noise.
    """)
    return


@app.cell(hide_code=True)
def _(controls, slider):
    cpu = slider("CPU frequency (GHz)", [round(0.1 * tenths, 1) for tenths in range(2, 31)], 1.0)
    band = slider("bandwidth (MHz)", [0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 8, 10, 15, 20], 2)
    distance = slider("distance (m)", range(20, 510, 10), 200)
    power = slider("transmit power (dBm)", range(31), 20)
    size = slider("model size (kbit)", [50, 100, 200, 448, 1000, 2000, 3640], 448)
    sliders = controls(cpu, band, distance, power, size)
    sliders
    return band, cpu, distance, power, size, sliders


@app.cell(hide_code=True)
def _(Problem, band, cpu, device_formulas, distance, mo, path_gain, plan_for, power, size):
    def planned(ghz=cpu.value, mhz=band.value, metres=distance.value, dbm=power.value, kbit=size.value):
        """The device as the sliders say, but for what is given here."""
        _problem = Problem(
            bits=1e3 * kbit, cycles=1e8, capacitance=1e-28, gain=path_gain(metres, 128.1, 37.6),
            power_w=10 ** (dbm / 10 - 3), budget_j=1.0, cpu_min_hz=1e8, cpu_max_hz=6e9, bandwidth_hz=40e6,
            noise_w_per_hz=10 ** -20.4)
        return _problem, plan_for(_problem, [1e6 * mhz], [1e9 * ghz])

    problem, plan = planned()
    now = (f"It is done after **{1e3 * plan.round_s:.1f} ms**, {1e3 * plan.compute_s[0]:.1f} ms to compute and "
           f"{1e3 * plan.upload_s[0]:.1f} ms to upload, and has spent **{1e3 * plan.energy_j:.1f} mJ**.")
    mo.vstack([mo.md(now), mo.md(device_formulas(problem, plan, 0, budget=False))])
    return now, plan, planned, problem


@app.cell(hide_code=True)
def _(LN2, band, fdma_rate, lines, mo, np, plan, problem):
    wide = np.geomspace(0.05, 20, 120)
    upload_ms = 1e3 * problem.bits[0] / fdma_rate(1e6 * wide, problem.snr_hz[0])
    floor_ms = 1e3 * problem.bits[0] * LN2 / problem.snr_hz[0]
    mo.Html(lines(wide, {"upload time": upload_ms, "limit for any bandwidth": np.full_like(wide, floor_ms)},
                  across="bandwidth (MHz)", up="ms", points={"here": (band.value, 1e3 * plan.upload_s[0])},
                  most=4e3 * float(plan.upload_s[0])).svg())
    return


@app.cell(hide_code=True)
def _(pages):
    questions = (
        pages.Question("Put the device at 500 m and double its band, from 5 to 10 MHz. How many times as fast is its "
                       "upload?", unit="times"),
        pages.Question("Double the CPU frequency. What happens to the **energy** that computing takes?",
                       ("It halves: the CPU runs half as long", "It stays: the cycles are the same", "It doubles",
                        "It is four times as much")),
        pages.Question("With the sliders as they are now: what makes the device's time shortest?",
                       ("Twice the clock", "Twice the band", "Twice the transmit power", "Half the model")),
    )
    predictions = pages.ask(questions)
    return predictions, questions


@app.cell(hide_code=True)
def _(band, cpu, pages, planned, power, predictions, questions, size):
    def _faster(metres, dbm=power.value):
        narrow, wide = (planned(metres=metres, dbm=dbm, mhz=mhz)[1].upload_s[0] for mhz in (5, 10))
        return float(narrow / wide)

    def _twice_the_band():
        return pages.Outcome(_faster(500), f"""
        At 50 m it is {_faster(50):.2f} times as fast, at 500 m only {_faster(500):.2f} times, and with 0 dBm at 500 m
        {_faster(500, 0):.2f} times. The rate b log₂(1 + J/b) grows like b while the signal-to-noise ratio J/b is
        large, but it never passes J / ln 2: more band also lets in more noise. A far device is short of **power**, a
        near one is short of **band**.
        """)

    def _twice_the_clock():
        _once, _twice = (planned(ghz=ghz)[1].compute_energy_j[0] for ghz in (cpu.value, 2 * cpu.value))
        _what = {0.5: questions[1].choices[0], 1.0: questions[1].choices[1], 2.0: questions[1].choices[2],
                 4.0: questions[1].choices[3]}
        return pages.Outcome(_what[round(float(_twice / _once), 6)], f"""
        {1e3 * _once:.1f} mJ become {1e3 * _twice:.1f} mJ, though the time halves. A faster clock needs a higher
        voltage, and the energy of a cycle goes with its square: α/2 · U f². This is why an energy budget, not the data
        sheet, sets the clock.
        """)

    def _what_helps():
        _tried = dict(zip(questions[2].choices, (
            planned(ghz=2 * cpu.value), planned(mhz=2 * band.value), planned(dbm=power.value + 3.0103),
            planned(kbit=size.value / 2)), strict=True))
        _ms = {what: 1e3 * found.round_s for what, (_, found) in _tried.items()}
        return pages.Outcome(min(_ms, key=_ms.get), f"""
        It takes {1e3 * planned()[1].round_s:.1f} ms now; {'; '.join(f'{what.lower()}: {ms:.1f} ms' for what, ms in
        _ms.items())}. Look which of the two times is the larger, and shorten that one. With a slow CPU, nothing that
        the radio does will help much. Move the sliders: the answer moves with them.
        """)

    answers = (_twice_the_band, _twice_the_clock, _what_helps)
    pages.replies(questions, predictions, answers)
    return (answers,)


@app.cell(hide_code=True)
def _(lesson, pages, sliders):
    pages.exercise(lesson, sliders)
    return


@app.cell(hide_code=True)
def _(band, distance, pages, plan, size):
    conditions = (
        pages.Condition("400 m away or farther", distance.value >= 400, f"{distance.value} m"),
        pages.Condition("448 kbit or more", size.value >= 448, f"{size.value} kbit"),
        pages.Condition("3 MHz at most", band.value <= 3, f"{band.value:g} MHz"),
        pages.Condition("done in less than 100 ms", plan.round_s < 0.1, f"{1e3 * plan.round_s:.1f} ms"),
        pages.Condition("with less than 25 mJ", plan.energy_j < 0.025, f"{1e3 * plan.energy_j:.1f} mJ"),
    )
    pages.check(conditions)
    return (conditions,)


@app.cell(hide_code=True)
def _(lesson, pages):
    pages.end(lesson)
    return


if __name__ == "__main__":
    app.run()

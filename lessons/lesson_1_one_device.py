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
    from netsim.lab.curves import lines
    from netsim.lab.formulas import device_formulas
    from netsim.lab.widgets import controls, slider
    from netsim.physics import LN2, fdma_rate, path_gain

    return LN2, Problem, controls, device_formulas, fdma_rate, lines, mo, np, path_gain, plan_for, slider


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
    controls(cpu, band, distance, power, size)
    return band, cpu, distance, power, size


@app.cell(hide_code=True)
def _(Problem, band, cpu, device_formulas, distance, mo, path_gain, plan_for, power, size):
    problem = Problem(
        bits=1e3 * size.value, cycles=1e8, capacitance=1e-28, gain=path_gain(distance.value, 128.1, 37.6),
        power_w=10 ** (power.value / 10 - 3), budget_j=1.0, cpu_min_hz=1e8, cpu_max_hz=4e9, bandwidth_hz=20e6,
        noise_w_per_hz=10 ** -20.4)
    plan = plan_for(problem, [1e6 * band.value], [1e9 * cpu.value])
    mo.vstack([
        mo.md(f"It is done after **{1e3 * plan.round_s:.1f} ms** and has spent **{1e3 * plan.energy_j:.1f} mJ**."),
        mo.md(device_formulas(problem, plan, 0, budget=False)),
    ])
    return plan, problem


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
def _(mo):
    mo.md("## Questions")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.accordion({
        "Put the device at 500 m and double its band from 5 to 10 MHz. Is it twice as fast? And at 50 m?": mo.md(r"""
        At 500 m it is 1.5 times as fast, at 50 m nearly twice. With 0 dBm at 500 m hardly anything happens. The rate
        $b \log_2(1 + J/b)$ grows like $b$ while the signal-to-noise ratio $J/b$ is large, but it never passes
        $J / \ln 2$: more bandwidth also lets in more noise. A far device is short of **power**, a near one is short of
        **band**.
        """),
        "Double the CPU frequency. What happens to the compute time, and what to its energy?": mo.md(r"""
        The time halves, the energy is four times as large: $E^\text{cmp} = \frac{\alpha}{2} U f^2$. A faster clock
        needs a higher voltage, and the energy of a cycle goes with its square. This is why an energy budget, not the
        data sheet, sets the clock.
        """),
        "Where would you put a second of engineering effort: the CPU, the radio or the model's size?": mo.md("""
        Look at which of the two times is larger, and move the sliders that shorten it. Near the base station with a
        small band the upload dominates, and halving the model halves it; with a slow CPU nothing that the radio does
        will help.
        """),
    })
    return


if __name__ == "__main__":
    app.run()

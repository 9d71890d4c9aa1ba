"""Lesson 3: an energy budget sets the clock."""

import marimo

app = marimo.App(width="medium", app_title="3. Energy budgets", css_file="lessons.css")


@app.cell(hide_code=True)
def _():
    import marimo as mo
    import numpy as np

    from netsim.allocation import Problem
    from netsim.allocation.seconds import InSeconds
    from netsim.lab.curves import lines
    from netsim.physics import bandwidth_for_rate, path_gain

    return InSeconds, Problem, bandwidth_for_rate, lines, mo, np, path_gain


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # 3. Energy budgets and the CPU cubic

    A device has an energy budget $e$ for the round. Computing takes $\frac{\alpha}{2} U f^2$ of it, sending takes $p$ times the upload time. Say
    the round is to last $T$ seconds. A clock frequency $f$ then leaves two limits for the upload:

    $$t^\text{up} \le T - \frac{U}{f} \quad\text{(time)}, \qquad
    t^\text{up} \le \frac{1}{p}\Bigl(e - \frac{\alpha}{2} U f^2\Bigr) \quad\text{(energy)}.$$

    A faster clock leaves more time and less energy. The **best** clock is where the two meet, since there the upload may take longest, and a long
    upload needs little bandwidth. Setting them equal gives an equation of third degree in $f$: the paper's cubic.
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    round_ms = mo.ui.slider(60, 300, 5, value=150, label="length of the round T (ms)", show_value=True, full_width=True)
    budget = mo.ui.slider(5, 80, 1, value=25, label="energy budget e (mJ)", show_value=True, full_width=True)
    power = mo.ui.slider(10, 30, 1, value=23, label="transmit power (dBm)", show_value=True, full_width=True)
    cpu_max = mo.ui.slider(0.6, 3.0, 0.1, value=2.0, label="highest clock (GHz)", show_value=True, full_width=True)
    mo.Html('<div class="controls">' + "".join(f"<div>{each}</div>" for each in (round_ms, budget, power, cpu_max)) + "</div>")
    return budget, cpu_max, power, round_ms


@app.cell(hide_code=True)
def _(InSeconds, Problem, bandwidth_for_rate, budget, cpu_max, path_gain, power, round_ms):
    problem = Problem(
        bits=448e3, cycles=1e8, capacitance=1e-28, gain=path_gain(200.0, 128.1, 37.6), power_w=10 ** (power.value / 10 - 3),
        budget_j=1e-3 * budget.value, cpu_min_hz=2e8, cpu_max_hz=1e9 * cpu_max.value, bandwidth_hz=20e6,
        noise_w_per_hz=10 ** -20.4)
    device = InSeconds.of(problem)
    compute_s = device.compute_time(1e-3 * round_ms.value)
    upload_s = float(device.upload_time_left(1e-3 * round_ms.value, compute_s)[0])
    best_ghz = 1e-9 * float(problem.cycles[0] / compute_s[0])
    need_mhz = 1e-6 * float(bandwidth_for_rate(problem.bits / upload_s, problem.snr_hz)[0]) if upload_s > 0 else float("inf")
    return best_ghz, need_mhz, problem, upload_s


@app.cell(hide_code=True)
def _(best_ghz, budget, cpu_max, lines, mo, need_mhz, np, problem, round_ms, upload_s):
    ghz = np.linspace(0.2, 3.0, 200)
    cycles, power_w = float(problem.cycles[0]), float(problem.power_w[0])
    by_time = round_ms.value - 1e3 * cycles / (1e9 * ghz)
    by_energy = 1e3 * (1e-3 * budget.value - 1e-28 * cycles * (1e9 * ghz) ** 2) / power_w
    by_time, by_energy = (np.where(left > 0, left, np.nan) for left in (by_time, by_energy))
    clipped = best_ghz > 0.999 * cpu_max.value
    if need_mhz < 20:
        said = (f"The best clock is **{best_ghz:.2f} GHz**{', the highest there is' if clipped else ''}. It leaves "
                f"**{1e3 * upload_s:.1f} ms** to upload, and that takes **{need_mhz:.2f} MHz**.")
    else:
        said = "In such a round the device **can't be done within its budget**, whatever band of the cell it gets."
    mo.vstack([
        mo.md(said),
        mo.Html(lines(ghz, {"what time leaves for the upload": by_time, "what energy leaves for it": by_energy},
                      across="clock frequency (GHz)", up="ms", most=1.1 * round_ms.value,
                      points={"best clock": (best_ghz, 1e3 * upload_s)} if upload_s > 0 else None).svg()),
    ])
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("## Questions")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.accordion({
        "Raise the budget step by step. When does more energy stop to help?": mo.md("""
        When the best clock reaches the highest one. From there on the time curve alone decides: the device can't compute any faster, so
        the energy that is left over stays unused. **Then the delay binds, not the energy.** Lesson 6 is about what happens to an algorithm that
        forgets this case.
        """),
        "Lower the transmit power at the same budget. Does the device need more or less band?": mo.md("""
        Both can happen. Less power makes a second of sending cheaper, so the budget lasts for a longer upload, but the signal is weaker and each
        second carries fewer bits. There is a power at which the two balance; looking for it is the paper's power control, the method
        `sao-common-power` here.
        """),
        "Why is it a cubic?": mo.md(r"""
        Put $t = U/f$ for the compute time. The budget pays for $E = e/p$ seconds of sending, of which computing takes $K/t^2$ with
        $K = \frac{\alpha}{2} U^3 / p$. Setting $T - t = E - K/t^2$ and multiplying by $t^2$ gives $t^3 - (T - E)\,t^2 - K = 0$: third degree, with exactly one
        positive root.
        """),
    })
    return


if __name__ == "__main__":
    app.run()

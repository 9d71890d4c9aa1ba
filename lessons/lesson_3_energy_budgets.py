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
    from netsim.lab.curves import lines
    from netsim.lab.widgets import controls, slider
    from netsim.physics import bandwidth_for_rate, path_gain

    return Problem, bandwidth_for_rate, controls, lines, mo, np, path_gain, slider


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
    controls(round_ms, budget, power, cpu_max)
    return budget, cpu_max, power, round_ms


@app.cell(hide_code=True)
def _(Problem, bandwidth_for_rate, budget, cpu_max, np, path_gain, power, round_ms):
    problem = Problem(
        bits=448e3, cycles=1e8, capacitance=1e-28, gain=path_gain(200.0, 128.1, 37.6),
        power_w=10 ** (power.value / 10 - 3), budget_j=1e-3 * budget.value, cpu_min_hz=2e8,
        cpu_max_hz=1e9 * cpu_max.value, bandwidth_hz=20e6, noise_w_per_hz=10 ** -20.4)
    round_s, budget_s = 1e-3 * round_ms.value, float(problem.budget_j[0] / problem.power_w[0])
    work = float(problem.compute_weight[0] * problem.cycles[0] ** 2 / problem.power_w[0])
    roots = np.roots([1.0, budget_s - round_s, 0.0, -work])          # of t^3 - (T - e/p) t^2 - K
    crossing_s = max(root.real for root in roots if abs(root.imag) < 1e-9)
    compute_s = max(crossing_s, float(problem.cycles[0] / problem.cpu_max_hz[0]))
    upload_s = min(round_s - compute_s, budget_s - work / compute_s**2)
    best_ghz = 1e-9 * float(problem.cycles[0]) / compute_s
    rate = problem.bits / max(upload_s, 1e-9)
    need_mhz = 1e-6 * float(bandwidth_for_rate(rate, problem.snr_hz)[0])
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
        When the best clock reaches the highest one. From there on the time curve alone decides: the device can't
        compute any faster, so the energy that is left over stays unused. **Then the delay binds, not the energy.**
        Lesson 6 is about what happens to an algorithm that forgets this case.
        """),
        "Lower the transmit power at the same budget. Does the device need more or less band?": mo.md("""
        Both can happen. Less power makes a second of sending cheaper, so the budget lasts for a longer upload, but the
        signal is weaker and each second carries fewer bits. There is a power at which the two balance; looking for it
        is the paper's power control, the method `sao-common-power` here.
        """),
        "Why is it a cubic?": mo.md(r"""
        Put $t = U/f$ for the compute time. The budget pays for $E = e/p$ seconds of sending, of which computing takes
        $K/t^2$ with $K = \frac{\alpha}{2} U^3 / p$. Setting $T - t = E - K/t^2$ and multiplying by $t^2$ gives
        $t^3 - (T - E)\,t^2 - K = 0$: third degree, with exactly one positive root.
        """),
    })
    return


if __name__ == "__main__":
    app.run()

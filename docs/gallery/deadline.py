# deadline.py
import matplotlib.pyplot as plt
import polars as pl

from netsim import load_run, load_sweep_results
from netsim.analysis.seed_statistics import estimate

plt.style.use("tableau-colorblind10")
found = load_sweep_results("results/sweeps/deadline-sweep")
names, pace, lost, never = [case.label for case in found.cases], [], [], []
for case in found.cases:
    rows = list(case.rows.values())
    runs = [load_run(found.folder / row["run"]) for row in rows]
    asked = [run.jobs["device"].n_unique() for run in runs]
    heard = [run.jobs.filter(pl.col("outcome") == "arrived")["device"].n_unique() for run in runs]
    pace.append(estimate([(500 - row["dropped"]) / row["simulated_s"] for row in rows]))
    lost.append(estimate([100 * row["dropped"] / 500 for row in rows]))
    never.append(estimate([100 - 100 * one / of for one, of in zip(heard, asked, strict=True)]))
    print(f"{case.label:>6}: {lost[-1].mean:4.1f} ± {lost[-1].half:3.1f} % lost,"
          f" {pace[-1].mean:4.1f} ± {pace[-1].half:4.1f} updates per second,"
          f" {never[-1].mean:4.1f} ± {never[-1].half:.1f} % of the phones without an update")

figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.2), layout="constrained")
for axes, values, label, style in ((left, pace, "updates per second", "C0o-"), (right, lost, "updates lost", "C0o-"),
                                   (right, never, "phones without an update", "C1s--")):
    axes.errorbar(names, [one.mean for one in values], yerr=[one.half for one in values], fmt=style, capsize=4,
                  label=label)
    axes.set(xlabel="deadline", ylim=(0, None))
    axes.tick_params("x", rotation=45)
    axes.grid(alpha=0.3)
left.set(ylabel="updates per second")
right.set(ylabel="share (%)")
right.legend(frameon=False)
figure.savefig("deadline.png", dpi=120)

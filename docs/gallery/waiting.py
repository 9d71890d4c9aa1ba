# waiting.py
import matplotlib.pyplot as plt
import polars as pl

from netsim import load_run, load_sweep_results
from netsim.analysis.seed_statistics import estimate

plt.style.use("tableau-colorblind10")
found = load_sweep_results("results/sweeps/waiting")
figure, axes = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
for case, marker in zip(found.cases, "osD^vX", strict=True):
    pace, cost = [], []
    for row in case.rows.values():
        updates = load_run(found.folder / row["run"]).jobs.filter(pl.col("outcome") == "arrived").height
        pace.append(updates / row["simulated_s"])
        cost.append(1e3 * row["energy_j"] / updates)
    pace, cost = estimate(pace), estimate(cost)
    name = f"{case.settings['server.kind']}, {case.settings['allocation.method']}"
    print(f"{name:18}: {pace.mean:5.1f} ± {pace.half:4.1f} updates per second"
          f" at {cost.mean:4.1f} ± {cost.half:3.1f} mJ each")
    axes.errorbar(cost.mean, pace.mean, xerr=cost.half, yerr=pace.half, fmt=marker, markersize=8, capsize=3, label=name)
axes.set(xlabel="energy of an update (mJ)", ylabel="updates per second", xlim=(0, None), ylim=(0, None))
axes.legend(frameon=False, loc="lower left")
axes.grid(alpha=0.3)
figure.savefig("waiting.png", dpi=120)

# battery.py
import matplotlib.pyplot as plt
import polars as pl

from netsim import load_run, load_sweep_results
from netsim.analysis.seed_statistics import estimate

plt.style.use("tableau-colorblind10")
found = load_sweep_results("results/sweeps/battery")
figure, axes = plt.subplots(figsize=(7.2, 3), layout="constrained")
for place, case in enumerate(found.cases):
    runs = [load_run(found.folder / row["run"]) for row in case.rows.values()]
    updates = estimate([run.jobs.filter(pl.col("outcome") == "arrived").height for run in runs])
    print(f"{case.label:>12}: {updates.mean:3.0f} ± {updates.half:2.0f} updates, {updates.mean / 20:4.1f} per phone")
    colour, hatch = ("C0", "") if case.label.startswith("sao") else ("C1", "//")
    axes.barh(place, updates.mean, xerr=updates.half, color=colour, hatch=hatch, edgecolor="white", capsize=4)
axes.set_yticks(range(len(found.cases)), [case.label for case in found.cases])
axes.invert_yaxis()
axes.set_xlabel("updates delivered until the batteries are empty")
figure.savefig("battery.png", dpi=120)

# model-size.py
import matplotlib.pyplot as plt

from netsim import load_sweep_results
from netsim.analysis.seed_statistics import estimate

plt.style.use("tableau-colorblind10")
found = load_sweep_results("results/sweeps/model-size")
lines = {}                       # by scheduler: kbit, updates per second, half width of the interval
for case in found.cases:
    kind, _, bits = case.label.rpartition(", ")
    rows = case.rows.values()
    pace = estimate([(80 - row["dropped"]) / row["simulated_s"] for row in rows])
    lost, energy = estimate([row["dropped"] for row in rows]), case.over("energy_j")
    print(f"{bits:>9}, {kind:13}: {pace.mean:4.1f} ± {pace.half:4.1f} updates per second,"
          f" {100 * lost.mean / 80:4.1f} % lost, {energy.mean:.2f} J")
    lines.setdefault(kind, []).append((float(bits.removesuffix(" kbit")), pace.mean, pace.half))

figure, axes = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
for (kind, points), style in zip(lines.items(), ("C0o-", "C3s--", "C1^-."), strict=True):
    x, mean, half = zip(*points, strict=True)
    axes.errorbar(x, mean, yerr=half, fmt=style, capsize=4, label=kind)
axes.set_xscale("log", base=2)
axes.set_xticks(x, [f"{kbit:g}" for kbit in x])
axes.set(xlabel="size of an upload (kbit)", ylabel="updates per second", ylim=(0, None))
axes.legend(frameon=False)
axes.grid(alpha=0.3)
figure.savefig("model-size.png", dpi=120)

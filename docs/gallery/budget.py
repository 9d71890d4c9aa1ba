# budget.py
import matplotlib.pyplot as plt
import polars as pl

from netsim import load_sweep_results

plt.style.use("tableau-colorblind10")
found = load_sweep_results("results/sweeps/budget").summary.with_columns(
    ms=1e3 * pl.col("round_s"), half=1e3 * (pl.col("round_s_high") - pl.col("round_s")),
    mj=1e3 * pl.col("energy_j") / (200 - pl.col("dropped")))           # per update; 20 rounds of 10
for row in found.iter_rows(named=True):
    print(f"{row['case']:>12}: {row['ms']:3.0f} ± {row['half']:2.0f} ms per round, {row['mj']:4.1f} mJ per update")

figure, axes = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
for method, style in (("equal", "C3D:"), ("sao", "C0o-"), ("tdma", "C1^-.")):
    points = found.filter(pl.col("allocation.method") == method)
    axes.errorbar(points["mj"], points["ms"], yerr=points["half"], fmt=style, capsize=4, label=method)
axes.set(xlabel="energy per update (mJ)", ylabel="round time (ms)", xlim=(0, None), ylim=(0, None))
axes.legend(frameon=False)
axes.grid(alpha=0.3)
figure.savefig("budget.png", dpi=120)

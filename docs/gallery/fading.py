# fading.py
import statistics

import matplotlib.pyplot as plt

from netsim import load_sweep_results
from netsim.analysis.seed_statistics import estimate, paired

plt.style.use("tableau-colorblind10")
found = load_sweep_results("results/sweeps/fading-sweep")
x, lines = ["10 ms", "100 ms", "1 s"], {"instantaneous": [], "mean": []}
for coherence in x:
    median = {}                  # of each seed's rounds, in ms: a few deep fades would dominate a mean
    for plan, points in lines.items():
        rows = found.case(f"{coherence}, {plan}").rows
        median[plan] = {seed: 1e3 * statistics.median(row["round_s"]) for seed, row in rows.items()}
        points.append(estimate(list(median[plan].values())))
    now, mean, more = lines["instantaneous"][-1], lines["mean"][-1], paired(
        median["mean"], median["instantaneous"])
    print(f"{coherence:>6}: {now.mean:.0f} ± {now.half:.0f} ms planned on the current gain,"
          f" {mean.mean:.0f} ± {mean.half:.0f} ms on the mean gain;"
          f" paired, mean minus current: {more.mean:+.0f} ± {more.half:.0f} ms")

figure, axes = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
for (plan, points), style in zip(lines.items(), ("o-", "s--"), strict=True):
    axes.errorbar(x, [one.mean for one in points], yerr=[one.half for one in points], fmt=style, capsize=4,
                  label=f"planned on the {'current' if plan == 'instantaneous' else 'mean'} gain")
axes.set(xlabel="coherence time of the channel", ylabel="median round (ms)")
axes.legend(frameon=False)
axes.grid(alpha=0.3)
figure.savefig("fading.png", dpi=120)

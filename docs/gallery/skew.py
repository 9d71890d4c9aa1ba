# skew.py
import matplotlib.pyplot as plt

from netsim import load_sweep_results
from netsim.analysis.over_seeds import estimate, paired

plt.style.use("tableau-colorblind10")
found = load_sweep_results("results/sweeps/skew")
rounds = {case.label: case.reached(0.85)["rounds"] for case in found.cases}
best = {case.label: {seed: 100 * share for seed, share in case.values("accuracy").items()} for case in found.cases}
print("seed  rounds to 85 %, and accuracy after 12")
for seed in found.seeds:
    print(f"{seed:4}  " + ";  ".join(f"{each} {rounds[each][seed]:2.0f}, {best[each][seed]:.2f} %" for each in rounds))
for method in rounds:
    fewer = paired(rounds[method], rounds["fedavg"])
    gain, mean = paired(best[method], best["fedavg"]), estimate(list(rounds[method].values()))
    print(f"{method}: {mean.mean:.1f} rounds; against fedavg {fewer.mean:+.1f} ± {fewer.half:.1f} rounds,"
          f" {gain.mean:+.2f} ± {gain.half:.2f} points")
found.figure("accuracy-rounds").savefig("skew.png", dpi=200)

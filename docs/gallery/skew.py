# skew.py
from netsim import load_sweep_results
from netsim.analysis.seed_statistics import paired

found = load_sweep_results("results/sweeps/skew")
rounds = {case.label: case.reached(0.8)["rounds"] for case in found.cases}
best = {case.label: {seed: 100 * share for seed, share in case.values("accuracy").items()} for case in found.cases}
print("seed  rounds to 80 %, and accuracy after 12")
for seed in found.seeds:
    print(f"{seed:4}  " + ";  ".join(f"{each} {rounds[each][seed]:2.0f}, {best[each][seed]:.2f} %" for each in rounds))
control = "cluster-round-robin"
for method, other in (("divergence", "fedavg"), (control, "fedavg"), ("divergence", control)):
    fewer, gain = paired(rounds[method], rounds[other]), paired(best[method], best[other])
    print(f"{method} against {other}: {fewer.mean:+.1f} ± {fewer.half:.1f} rounds,"
          f" {gain.mean:+.2f} ± {gain.half:.2f} points")
found.figure("accuracy-rounds").savefig("skew.png", dpi=180)

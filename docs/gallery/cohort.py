# cohort.py
import matplotlib.pyplot as plt

from netsim import load_sweep_results

plt.style.use("tableau-colorblind10")
found = load_sweep_results("results/sweeps/cohort").summary
seconds = found["simulated_s"], found["simulated_s_high"] - found["simulated_s"]
joules = found["energy_j"], found["energy_j_high"] - found["energy_j"]
for row, size in enumerate(found["selection.cohort"]):
    print(f"cohort {size:>2}: {seconds[0][row]:5.2f} ± {seconds[1][row]:.2f} s, "
          f"{joules[0][row]:.2f} ± {joules[1][row]:.2f} J for {200 - found['dropped'][row]:.0f} updates")

figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3), layout="constrained")
for axes, (mean, half), colour, marker in ((left, seconds, "C0", "o"), (right, joules, "C1", "s")):
    axes.errorbar(found["selection.cohort"], mean, yerr=half, color=colour, marker=marker, capsize=4)
    axes.set(xlabel="cohort (devices per round)", ylim=(0, 1.15 * max(mean)))
    axes.grid(alpha=0.3)
left.set(ylabel="time of 200 updates (s)")
right.set(ylabel="energy of all devices (J)")
figure.savefig("cohort.png", dpi=120)

# buy.py
from netsim import load_sweep_results

found = load_sweep_results("results/sweeps/buy")
for row in found.differences(against="20 MHz").iter_rows(named=True):
    more, half = 1e3 * row["round_s"], 1e3 * (row["round_s_high"] - row["round_s"])
    print(f"{row['case']:>14}: round time {more:+5.1f} ± {half:.1f} ms")
found.figure("round-time").savefig("buy.png", dpi=200)

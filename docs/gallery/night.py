# night.py
import matplotlib.pyplot as plt
import polars as pl

from netsim import load_scenario, simulate
from netsim.analysis.seed_statistics import estimate

plt.style.use("tableau-colorblind10")
figure, axes = plt.subplots(figsize=(7.2, 3.2), layout="constrained")
for battery, style in (("600 J", "o-"), ("2400 J", "s--")):
    scenario = load_scenario("night.toml", [f"population.{kind}.battery={battery}" for kind in ("home", "office")])
    days = []
    for seed in range(3):        # only the second of two days: the first depends on the full initial batteries
        arrived = simulate(scenario, seed=seed).jobs.filter(pl.col("outcome") == "arrived", pl.col("t1") >= 86_400)
        days.append(arrived.select(hour=(pl.col("t1") / 3600 % 24).floor().cast(int),
                                   home=100 * (pl.col("device") < 10)))
    by_hour = pl.concat(days).group_by("hour").agg(pl.col("home").mean()).sort("hour")
    share = estimate([day["home"].mean() for day in days])
    print(f"{battery}: {share.mean:.1f} ± {share.half:.1f} % of the day's updates are from home phones;"
          f" per hour {by_hour['home'].min():.1f} % to {by_hour['home'].max():.1f} %")
    axes.plot(by_hour["hour"] + 0.5, by_hour["home"], style, label=f"battery of {battery}")
axes.set(xlabel="hour of the day", ylabel="updates from home phones (%)", ylim=(-4, 104), xticks=range(0, 25, 3))
axes.legend(frameon=False, loc="lower left")
axes.grid(alpha=0.3)
figure.savefig("night.png", dpi=120)

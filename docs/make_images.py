"""Draw the images of the documentation with netsim itself: `make images` (needs Chromium)."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import simpy

from netsim import load_scenario, simulate
from netsim.base.figures import new_figure
from netsim.cell import Battery, Device, Equal, Job, JobPlan, Uplink
from netsim.cell.band_sharing import HZ

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))      # the browser client lives with the tests


def timeline() -> None:
    """Draw a round under equal bandwidths, in which all devices wait for one."""
    run = simulate(load_scenario("lab", ["allocation.method=equal"]), seed=4)
    waited = run.breakdown().rounds.sort(pl.col("wait_s") / pl.col("round_s"), descending=True)
    run.figure("gantt", round=int(waited["round"][0])).savefig(HERE / "images" / "gantt.png", dpi=160)


def round_events() -> None:
    """Draw the two jobs of docs/simulation.md: activity, bandwidth and battery level."""
    env = simpy.Environment()
    uplink, battery = Uplink(env, bandwidth_hz=1e6, scheduler=Equal()), Battery(env, capacity_j=1.2)
    devices = [Device(env, uplink), Device(env, uplink, battery=battery)]
    jobs = [Job(JobPlan(cycles=1e9, cpu_hz=1e9, compute_w=0.5, bits=4e6, power_w=0.2), snr_hz=7e6, device=0),
            Job(JobPlan(cycles=2e9, cpu_hz=1e9, compute_w=0.5, bits=3e6, power_w=0.2), snr_hz=7e6, device=1)]
    for device, job in zip(devices, jobs, strict=True):
        env.process(device.perform(job))
    times, bands, levels = np.linspace(0.002, 3.2, 1600), [], []
    for t in times.tolist():
        env.run(until=t)
        held = {each.job.device: hz / 1e6 for each, hz in zip(uplink.band.all, uplink.band.table[HZ], strict=True)}
        bands.append([held.get(0, 0.0), held.get(1, 0.0)])
        levels.append(battery.level_j)
    colours = {"compute": "#4878a8", "upload": "#e08a3c"}
    figure = new_figure(7.5, 5.2)
    work, band, charge = figure.subplots(3, 1, sharex=True, height_ratios=[1.2, 1, 1])
    for job in jobs:
        work.barh(job.device, job.work.computed_at, color=colours["compute"], height=0.6)
        sent_from = job.work.sent_from
        work.barh(job.device, job.ended_at - sent_from, left=sent_from, color=colours["upload"], height=0.6)
        work.text(job.ended_at + 0.03, job.device, job.outcome, va="center")
    work.text(0.02, 0, "compute", va="center", color="white")
    work.text(1.02, 0, "upload", va="center", color="white")
    work.set_yticks([0, 1], ["device 0", "device 1"])
    work.invert_yaxis()
    band.stackplot(times, np.array(bands).T, labels=["device 0", "device 1"], colors=["#c8743a", "#f0b27a"])
    band.set_ylabel("bandwidth (MHz)")
    band.legend(loc="upper left", frameon=False)
    charge.plot(times, levels, color="#3a7a4c")
    charge.set_ylabel("battery of\ndevice 1 (J)")
    charge.set_xlabel("simulated time (s)")
    charge.set_ylim(0)
    for axes in (work, band, charge):
        for t in (1.0, 2.0, jobs[0].ended_at, jobs[1].ended_at):
            axes.axvline(t, color="#999999", linewidth=0.6, linestyle=":")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlim(0, 3.6)
    figure.savefig(HERE / "images" / "round-events.png", dpi=150)


def lab() -> None:
    """Take a screenshot of the lab."""
    from chromium import Browser

    command = [sys.executable, "-m", "netsim", "lab", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split()[2]
        with Browser() as browser:
            page = browser.open(address, 1280, 1240)
            page.wait_for("document.querySelectorAll('.headline').length === 2")
            time.sleep(2)                                       # fonts
            page.screenshot(HERE / "images" / "lab.png")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    (HERE / "images").mkdir(exist_ok=True)
    timeline()
    round_events()
    lab()

"""A night of 2,000 phones from the export of a device management tool: who takes part, how long, what it costs.

    python night.py FOLDER

writes the export (names, batteries in Wh, columns that netsim does not know) and the times at which the phones were on
Wi-Fi last night, runs the night from 21:30 to 6:30 and writes ``FOLDER/run/report.html``, a page to pass on.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from random import Random

from netsim.cli import main as netsim

PHONES = 2_000
SCENARIO = """
[cell]
radius = "500 m"
bandwidth = "20 MHz"
shadowing = "6 dB"

[[population]]
name = "phone"
devices = { file = "phones.csv", rename = { asset = "name", model = "kind", tx = "power [dBm]" }, ignore = "others" }
budget = "none"
samples = 300
cpu = { min = "0.6 GHz", max = "2 GHz", cycles_per_sample = 4e8 }
availability = { model = "recorded", intervals = "on-wifi.csv", period = "24 h", on_interrupt = "pause" }
idle_power = "25 mW"

[learning]
bits = "94 Mbit"                 # 2.9 million parameters
local_epochs = 1

[selection]
method = "fedavg"
cohort = 100

[rounds]
first = "cohort"
starts_at = "21:30"
deadline = "30 min"
retry_after = "5 min"

[end]
rounds = 10000
time = "9 h"
"""


def write_exports(folder: Path) -> None:
    """Write the files that an engineer would have."""
    chance = Random(7)
    names = [f"PX-{number:05}" for number in chance.sample(range(100_000), PHONES)]
    with (folder / "phones.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["asset", "owner", "model", "tx", "battery [Wh]", "cpu_max [GHz]", "last seen"])
        for name in names:
            model, wh, ghz = chance.choice([("A3", 11.5, 1.8), ("A5", 15.4, 2.2), ("S9", 18.1, 2.8)])
            rows.writerow([name, f"user {chance.randrange(5000)}", model, chance.choice([20, 23]),
                           round(wh * chance.uniform(0.25, 1.0), 2), ghz, "2026-11-17"])
    with (folder / "on-wifi.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["device", "on", "off"])      # seconds since midnight, in another order than the phones
        for name in sorted(names):
            if chance.random() < 0.05:
                continue                            # not seen that night
            up, home = chance.gauss(6.7, 1.0) * 3600, chance.gauss(22.2, 1.2) * 3600
            rows.writerow([name, 0, round(min(max(up, 600), 40_000))])
            rows.writerow([name, round(min(max(home, 50_000), 86_000)), 86_400])


def run(*words: str) -> None:
    """Run a netsim command; end with its exit code if it fails."""
    sys.argv = ["netsim", *words]
    try:
        netsim()
    except SystemExit as ended:
        if ended.code not in (0, None):
            raise


def main(folder: Path) -> None:
    """Write the files, run the night and write the page."""
    write_exports(folder)
    scenario, out = folder / "night.toml", folder / "run"
    scenario.write_text(SCENARIO, encoding="utf-8")
    run("check", str(scenario))
    run("run", str(scenario), "--out", str(out))
    run("breakdown", str(out))
    run("report", str(out))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

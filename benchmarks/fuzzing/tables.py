"""Sweep files, fleets in CSV and partitions, changed."""

from __future__ import annotations

import json
import random
from pathlib import Path

from .commands import ask, check_plan
from .mutations import mutant, mutant_table, raw, token, written

SWEEP = 'scenario = "tiny"\nseeds = 2\nlearning = false\nset.selection.method = "fedavg"\n' \
        'grid.allocation.method = ["sao", "equal"]\ngrid.cell.bandwidth = ["1 MHz", "2 MHz"]\n'
FLEET = "name,x,y,samples,battery\nada,10 m,20 m,30,1 J\nbob,-50 m,3 m,40,2 J\neve,7 m,-9 m,20,3 J\n"
OWN = """
[cell]
radius = "200 m"
bandwidth = "20 MHz"
[[population]]
name = "phone"
{devices}
cpu = {{ min = "0.2 GHz", max = "2 GHz", cycles_per_sample = 1e5 }}
radio = {{ power = "23 dBm" }}
budget = "60 mJ"
[learning]
{learning}
[selection]
method = "fedavg"
cohort = 2
[end]
rounds = 2
"""


def table_case(chance: random.Random, folder: Path) -> str:
    """A sweep, a fleet or a partition is changed, and asked for."""
    kind = chance.choice(["sweep", "fleet", "partition"])
    if kind == "sweep":
        file = written(folder / "sweep.toml", mutant(SWEEP, chance))
        return "refused" if ask("sweep", file, "--status") is None else "ok"
    if kind == "fleet":
        written(folder / "fleet.csv", mutant_table(FLEET, chance))
        text = OWN.format(devices='devices = "fleet.csv"', learning='bits = "400 kbit"')
    else:
        split = json.dumps({str(device): [10 * device + i for i in range(8)] for device in range(3)})
        written(folder / "split.json", chance.choice([mutant_table, raw, token])(split, chance))
        text = OWN.format(devices='count = 3\nsamples = "auto"', learning=(
            'dataset = "digits"\nmodel = "fashion-cnn"\nbits = "400 kbit"\n'
            'partition = { kind = "file", path = "split.json" }'))
    file = written(folder / "self.toml", text)
    plans = ask("allocate", file, "--json")
    for plan in json.loads(plans.out) if plans else []:
        check_plan(plan)
    return "refused" if plans is None else "ok"

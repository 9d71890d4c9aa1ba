"""Plays the scenarios of this folder and writes down what came of them.

    python tests/before/record.py FILE

is run with the code whose behaviour is to be kept; ``runs.json`` here was written by the code before work at rates,
jobs as data and trace format 2. Of its runs, those in which a battery ran empty or a device was late were written anew
when plans came to know both. The public interface is all that is used, so that any version can be asked.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draw_scenarios import draw_scenario

from netsim import Run, load_scenario, simulate

FILE = Path(__file__).with_name("runs.json")
RANDOM = 50
NO_PLAN = "infeasible"        # such a device never began; whether it has a row among the shares is not told

SMALL = ["learning.dataset=digits", "population.phone.count=12", "population.phone.samples=30", "selection.cohort=4",
         "learning.local_steps=6", "learning.batch_size=10", "learning.learning_rate=0.1", "end.rounds=3"]
LEARNED = {                   # what learning hands from room to room: weights, losses, gradients, chances
    "kmeans": ["selection.method=kmeans"],
    "cluster-round-robin": ["selection.method=cluster-round-robin", "rounds.infeasible=waves"],
    "icas": ["selection.method=icas", "learning.aggregation=unbiased", "cell.fading=rayleigh"],
    "oort": ["selection.method=oort", "learning.server={kind='momentum'}"],
    "power-of-choice": ["selection.method=power-of-choice", "learning.proximal=0.1"],
    "tifl": ["selection.method=tifl", "selection.tiers=3", "learning.server={kind='adam'}"],
    "k-center": ["selection.method=k-center", "learning.aggregation=mean"],
    "rra": ["selection.method=rra", "learning.momentum=0.5", "learning.evaluation.every=2"],
    "fedl": ["selection.method=fedavg", "allocation.method=fedl", "learning.fedl=0.5"],
    "deadline": ["selection.method=fedavg", "allocation.method=equal", "rounds.deadline=25ms"],
    "no plan": ["selection.method=fedavg", "population.phone.budget={dist='uniform',low='0.2mJ',high='3mJ'}"],
    "batteries": ["selection.method=fedavg", "population.phone.battery=30mJ", "rounds.first=cohort"],
    "target": ["selection.method=fedavg", "learning.target_accuracy=0.12", "learning.partition={kind='iid'}"],
}


@dataclass(frozen=True)
class Case:
    """One run: a built-in scenario with overrides, or one of the random ones."""

    name: str
    scenario: str = ""        # a built-in one; else ``text`` is the file
    overrides: tuple[str, ...] = ()
    text: str = ""
    seed: int = 0
    learning: bool = False


def cases() -> list[Case]:
    """All runs that are compared."""
    fedavg = "selection.method=fedavg"
    played = [
        Case("lab", "lab", ("end.rounds=4",)),
        Case("tiny", "tiny"),
        Case("tiny, sao", "tiny", ("allocation.method=sao",)),
        Case("mixed-fleet", "mixed-fleet", ("end.rounds=10",)),
        Case("paper", "paper", (fedavg, "end.rounds=4")),
        Case("quickstart", "quickstart", (fedavg,)),
    ]
    learned = [
        Case("mixed-fleet, learning", "mixed-fleet", ("learning.local_iterations=1", "end.rounds=3"), learning=True),
        Case("paper, learning", "paper", (
            "learning.dataset=digits", "population.phone.count=40", "population.phone.samples=20",
            "learning.local_iterations=1", "learning.batch_size=10", "learning.learning_rate=0.1", "end.rounds=3"),
            learning=True),
        Case("quickstart, learning", "quickstart", ("learning.local_iterations=2", "end.rounds=3"), learning=True),
        *(Case(f"{name}, learning", "quickstart", (*SMALL, *overrides), learning=True)
          for name, overrides in LEARNED.items()),
    ]
    drawn = [Case(f"random {number}", text=draw_scenario(number), seed=number) for number in range(RANDOM)]
    return [*played, *learned, *drawn]


def play(case: Case, folder: Path) -> Run:
    """Run a case; its scenario file, if it is not built in, goes into ``folder``."""
    file = folder / "drawn.toml"
    if case.text:
        file.write_text(case.text)
    return simulate(load_scenario(case.scenario or file, case.overrides), seed=case.seed, learning=case.learning,
                    workers=1)


def outcome(run: Run) -> dict[str, Any]:
    """What is compared: a list with an entry a round, a share or a device."""
    rounds, found = run.rounds, run.breakdown()
    shares = found.shares.filter(found.shares["outcome"] != NO_PLAN).sort("round", "device")
    whole = {name: rounds[name].to_list() for name in ("cohort", "arrived", "dropped", "round_s", "energy_j")}
    learned = {name: [None if value is None or math.isnan(value) else value for value in rounds[name].to_list()]
               for name in ("accuracy", "loss")}
    return {
        **whole, **(learned if any(value is not None for value in learned["loss"]) else {}),
        "share_round": shares["round"].to_list(), "share_device": shares["device"].to_list(),
        "share_outcome": shares["outcome"].to_list(), "share_energy_j": shares["energy_j"].to_list(),
        "device_gain": run.devices["gain"].to_list(), "device_dropped": found.devices["dropped"].to_list(),
    }


def main(path: Path) -> None:
    """Play all cases and write what came of them."""
    made_with: dict[str, str] = {}
    outcomes = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            run = play(case, Path(folder))
            made_with = {"processor": run.info["processor"], "torch": run.info["versions"]["torch"]}
            outcomes[case.name] = outcome(run)
            print(case.name, run.rounds.height, "rounds", file=sys.stderr)
    lines = [f"{json.dumps(name)}: {json.dumps(found, separators=(',', ':'))}" for name, found in outcomes.items()]
    path.write_text(f'{{"made_with": {json.dumps(made_with)},\n"runs": {{\n' + ",\n".join(lines) + "\n}}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

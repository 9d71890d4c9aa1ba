"""The built-in scenarios, changed."""

from __future__ import annotations

import json
import random
import shutil
from functools import cache
from pathlib import Path

from .commands import ask, check_plan, check_run, holds
from .mutations import mutant, written

BUILT_IN = Path(__file__).parents[2] / "scenarios"
LARGEST = 300      # devices of a mutant that is also simulated: more is slow by right


def scenario_case(chance: random.Random, folder: Path) -> str:
    """A mutant is checked, planned and played; what passes the check must come to an answer that holds together."""
    for table in BUILT_IN.glob("*.csv"):
        shutil.copy(table, folder)
    bases = built_in()
    for name, text in bases.items():
        written(folder / name, text)
    file = written(folder / "self.toml", mutant(bases[chance.choice(list(bases))], chance))
    if ask("check", file) is None:
        return "refused"
    done = "refused"
    seed = chance.randrange(100)
    if small(file):
        plans = ask("allocate", file, "--json", "--seed", seed)
        if plans is not None:
            for plan in json.loads(plans.out):
                check_plan(plan)
            done = "ok"
        words = ["run", file, "--no-learning", "--json", "--seed", seed, "--out", folder / "run", "--set",
                 "end.rounds=2"]
        played = ask(*words) or ask(*words, "--set", "selection.method=fedavg")      # its own may need models
        if played is not None:
            check_run(json.loads(played.out))
            holds(ask("breakdown", folder / "run", "--json") is not None, "a run that cannot be read back")
            done = "ok"
    return done


@cache
def built_in() -> dict[str, str]:
    """The texts that mutants start from, with a quarter of the hundred devices: the rest adds seconds and no kind."""
    return {file.name: file.read_text(encoding="utf-8").replace("count = 100", "count = 25")
            for file in sorted(BUILT_IN.glob("*.toml"))}


def small(file: Path) -> bool:
    from netsim import load_scenario

    return load_scenario(str(file)).size <= LARGEST

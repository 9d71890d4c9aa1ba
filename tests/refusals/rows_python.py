"""Python callers: arguments of another kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from refusals import Row, call

from netsim import Scenario, load_scenario, simulate


def tiny(**changes: object) -> Row:
    """The tiny scenario with a value for its bandwidth, or another key."""
    return lambda folder: load_scenario("tiny").with_({key.replace("__", "."): value for key, value in changes.items()})


ROWS: dict[str, Row] = {
    "a number for a scenario": (call(simulate, 3), "wrong-type", "scenario"),
    "an array for a scenario": (call(simulate, np.zeros(3)), "wrong-type", "scenario"),
    "a list for tables": (call(Scenario.of, [1]), "wrong-type", "Scenario.of"),
    "an unknown name": (call(simulate, "quickstrat"), "unknown-name", "scenario"),
    "a path that is not there": (call(simulate, Path("nowhere/cell.toml")), "no-such-file", "nowhere/cell.toml"),
    "a number for a name": (call(load_scenario, 3), "wrong-type", "load_scenario"),
    "a text for overrides": (call(load_scenario, "tiny", "cell.bandwidth=1MHz"), "wrong-type", "--set"),
    "a number for overrides": (call(load_scenario, "tiny", 3), "wrong-type", "--set"),
    "numbers in overrides": (call(load_scenario, "tiny", [3]), "wrong-type", "--set"),
    "a key that is a number": (call(load_scenario, "tiny", {3: 4}), "wrong-type", "--set"),
    "a key of a table that is a number": (call(Scenario.of, {"cell": {3: 4}}), "wrong-type", "cell"),
    "a text for changes": (lambda folder: load_scenario("tiny").with_("cell.bandwidth=1MHz"), "wrong-type", "with_"),
    "a misspelt key": (tiny(cell__bandwith="1 MHz"), "unknown-key", "cell.bandwith"),
    "an object for a value": (tiny(cell__bandwidth=object), "wrong-type", "cell.bandwidth"),
    "None for a value": (tiny(cell__bandwidth=None), "missing", "cell.bandwidth"),
    "an array for a value": (tiny(end__rounds=np.arange(2)), "wrong-type", "end.rounds"),
    "a text for a seed": (call(simulate, "tiny", seed="one"), "out-of-range", "seed"),
    "a negative seed": (call(simulate, "tiny", seed=-1), "out-of-range", "seed"),
    "half a worker": (call(simulate, "tiny", workers=0.5), "out-of-range", "workers"),
    "a number for a folder": (call(simulate, "tiny", out=4), "wrong-type", "out"),
    "a word for yes or no": (call(simulate, "tiny", learning="no"), "wrong-type", "learning"),
    "a word for a function": (call(simulate, "tiny", progress="bar"), "wrong-type", "progress"),
    "to resume nothing": (call(simulate, "tiny", resume=True), "needs", "resume"),
    "to resume objects": (call(simulate, "tiny", "run", resume=True, allocation=len), "unsupported", "resume"),
    "a misspelt argument": (call(simulate, "tiny", alocation=len), "unknown-option", "alocation"),
    "a name for an object": (call(simulate, "tiny", allocation="sao"), "wrong-type", "allocation"),
    "another function": (call(simulate, "tiny", allocation=lambda nothing: None),
                         "wrong-interface", "allocation.method"),
    "an unknown dataset": (call(simulate, "quickstart", dataset="mnsit"), "wrong-type", "dataset"),
    "models without learning": (call(simulate, "quickstart", learning=False), "needs", "selection.method"),
}

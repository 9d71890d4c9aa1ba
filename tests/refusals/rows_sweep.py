"""Sweep files, sweeps from Python, and targets of a reproduction."""

from __future__ import annotations

from pathlib import Path
from threading import Lock

from refusals import Provoke, Row, call, command, write

from netsim import load_sweep_results, run_sweep
from netsim.allocation import allocate
from netsim.sweep.sweep_file import load_sweep

TINY = 'scenario = "tiny"\n'


def sweep(text: str) -> Provoke:
    """Read a sweep file of this text."""
    def provoke(folder: Path) -> None:
        write({"s.toml": text})
        load_sweep(Path("s.toml"))

    return provoke


def mine(problem: object) -> object:
    return allocate(problem, "equal")


def locked() -> object:
    """Return a function that no other process can have."""
    lock = Lock()

    def mine(problem: object) -> object:
        return allocate(problem, "equal") if lock else None

    return mine


class Mine:
    """A class, whose text is the same in every process."""


ROWS: dict[str, Row] = {
    "no file": (command("sweep nowhere.toml"), "no-such-file", "nowhere.toml"),
    "no scenario": (sweep("seeds = 2"), "missing", "scenario"),
    "a key": (sweep(TINY + "gird = 1"), "unknown-key", "gird"),
    "a key that is varied": (sweep(TINY + '[grid]\ncell.bandwith = ["5 MHz"]'), "unknown-key", "cell.bandwith"),
    "a value for a list": (sweep(TINY + '[grid]\ncell.bandwidth = "5 MHz"'), "wrong-type", "grid.cell.bandwidth"),
    "an empty list": (sweep(TINY + "[grid]\ncell.bandwidth = []"), "wrong-type", "grid.cell.bandwidth"),
    "a value for cases": (sweep(TINY + "list = 3"), "wrong-type", "list"),
    "a value for a table": (sweep(TINY + "set = 3"), "wrong-type", "set"),
    "no seeds": (sweep(TINY + "seeds = 0"), "out-of-range", "seeds"),
    "a seed twice": (sweep(TINY + "seeds = [1, 1]"), "out-of-range", "seeds"),
    "true for seeds": (sweep(TINY + "seeds = true"), "out-of-range", "seeds"),
    "a number for learning": (sweep(TINY + "learning = 1"), "wrong-type", "learning"),
    "a path for a name": (sweep(TINY + 'name = "../out"'), "malformed", "name"),
    "a zero byte in a name": (sweep(TINY + 'name = "a\\u0000b"'), "malformed", "name"),
    "grid and list": (sweep(TINY + "[grid]\nend.rounds = [1]\n[[list]]\nend.rounds = 2"), "duplicate", "end.rounds"),
    "a value twice": (sweep(TINY + '[grid]\ncell.bandwidth = ["5 MHz", "5 MHz"]'), "duplicate", "grid.cell.bandwidth"),
    "a case twice": (sweep(TINY + "[[list]]\nend.rounds = 2\n[[list]]\nend.rounds = 2"), "duplicate", "list"),
    "a whole table": (sweep(TINY + '[grid]\nrounds = [{ first = "all" }, { first = "cohort" }]'), "unsupported",
                      "rounds"),
    "too many points": (sweep(TINY + "seeds = 1000\n[grid]\n" + "".join(
        f"x{n} = {list(range(10))}\n" for n in range(9))), "too-large", "s.toml"),
    "a text to vary": (call(run_sweep, "tiny", "cell.bandwidth"), "wrong-type", "run_sweep: vary"),
    "a function for a value": (call(run_sweep, "tiny", {"cell.bandwidth": [Mine]}), "wrong-type",
                               "run_sweep: cell.bandwidth"),
    "seeds in Python": (call(run_sweep, "tiny", {}, seeds=[1, 1]), "out-of-range", "seeds"),
    "objects for workers": (call(run_sweep, "tiny", {"allocation": [locked()]}, workers=2),
                            "unsupported", "run_sweep: workers"),
    "no point at all": (call(run_sweep, "tiny", {"population.node.budget": ["1 uJ"]}), "infeasible", "sweep tiny"),
    "a label that is none": (call(run_sweep, "tiny", [{"label": 3}]), "wrong-type", "list.0.label"),
    "nothing for a sweep": (call(load_sweep_results, None), "wrong-type", "load_sweep_results"),
    "a target": (command("reproduce tabel3"), "unknown-name", "TARGET"),
    "a dataset to train on": (command("reproduce fig10 --dataset minst"), "unknown-name", "--dataset"),
}

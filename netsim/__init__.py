"""Federated learning in one wireless cell, as a discrete-event simulation.

>>> from netsim import load_scenario, simulate
>>> run = simulate(load_scenario("tiny"))
>>> run.rounds.columns[:4]
['round', 't0', 't1', 'round_s']
"""

TYPE_CHECKING = False      # no import before `python -m netsim` has removed the current folder from the path
if TYPE_CHECKING:
    from typing import Any

    __version__: str
    from netsim.base.errors import InputError
    from netsim.calibration import Calibration, Prediction, calibrate, predict
    from netsim.run import Run, load_run
    from netsim.scenario import Scenario, load_scenario
    from netsim.simulation import simulate
    from netsim.sweep.api import run_sweep
    from netsim.sweep.results import SweepResults, load_sweep_results

__all__ = ["Calibration", "InputError", "Prediction", "Run", "Scenario", "SweepResults", "calibrate", "load_run",
           "load_scenario", "load_sweep_results", "predict", "run_sweep", "simulate"]

# Loaded on first use, so that `import netsim` and `netsim --help` are fast.
_HOMES = {
    "InputError": "netsim.base.errors", "Run": "netsim.run", "load_run": "netsim.run", "Scenario": "netsim.scenario",
    "load_scenario": "netsim.scenario", "simulate": "netsim.simulation", "run_sweep": "netsim.sweep.api",
    "Calibration": "netsim.calibration", "Prediction": "netsim.calibration", "calibrate": "netsim.calibration",
    "predict": "netsim.calibration", "SweepResults": "netsim.sweep.results",
    "load_sweep_results": "netsim.sweep.results",
}


def __getattr__(name: str) -> "Any":
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("netsim")
    raise AttributeError(f"module 'netsim' has no attribute {name!r}")

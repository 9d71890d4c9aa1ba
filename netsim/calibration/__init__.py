"""Calibration: a fleet fitted to logs of a real deployment, its error on held-out rounds, and predictions."""

from __future__ import annotations

from netsim.calibration.calibration import Calibration, calibrate
from netsim.calibration.prediction import Prediction, predict

__all__ = ["Calibration", "Prediction", "calibrate", "predict"]

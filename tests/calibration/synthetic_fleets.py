"""Logs of fleets whose parameters are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

COLUMNS = ("device", "round", "samples", "batch", "bits", "compute_s", "upload_s", "energy_j")
BITS = 1.4e6


def draw_fleet(rng: np.random.Generator, size: int) -> dict[str, np.ndarray]:
    """Draw the true parameters of devices, and the sds of their residuals."""
    return {
        "seconds_per_batch": rng.lognormal(np.log(0.05), 0.7, size),
        "seconds_per_sample": rng.lognormal(np.log(0.004), 0.7, size),
        "upload_bits_per_s": rng.lognormal(np.log(4e6), 0.6, size),
        "compute_w": rng.uniform(1.0, 4.0, size), "transmit_w": rng.uniform(0.5, 3.0, size),
        "compute_sd": rng.lognormal(np.log(0.08), 0.4, size), "upload_sd": rng.lognormal(np.log(0.3), 0.3, size)}


def play(rng: np.random.Generator, true: dict[str, np.ndarray], rounds: int) -> pl.DataFrame:
    """Return the log of a fleet in which every device takes part in every round."""
    size = len(true["compute_w"])
    device = np.tile(np.arange(size), rounds)
    samples, batch = rng.integers(40, 400, len(device)), rng.choice([8, 16, 32], len(device))
    at = {name: values[device] for name, values in true.items()}
    compute_s = (np.ceil(samples / batch) * at["seconds_per_batch"] + samples * at["seconds_per_sample"]) * np.exp(
        at["compute_sd"] * rng.standard_normal(len(device)))
    upload_s = BITS / at["upload_bits_per_s"] * np.exp(at["upload_sd"] * rng.standard_normal(len(device)))
    energy_j = (at["compute_w"] * compute_s + at["transmit_w"] * upload_s) * np.exp(
        0.05 * rng.standard_normal(len(device)))
    return pl.DataFrame({
        "device": [f"phone {number}" for number in device], "round": np.repeat(np.arange(rounds), size),
        "samples": samples, "batch": batch, "bits": np.full(len(device), BITS), "compute_s": compute_s,
        "upload_s": upload_s, "energy_j": energy_j})


def write_log(path: Path, seed: int = 0, size: int = 5, rounds: int = 12, without: tuple[str, ...] = ()) -> Path:
    """Write the log of a fleet, without some of its columns."""
    rng = np.random.default_rng(seed)
    play(rng, draw_fleet(rng, size), rounds).drop(*without).write_csv(path)
    return path

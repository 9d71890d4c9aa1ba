"""Any log in the documented format gives a scenario and finite numbers, or one InputError."""

import json
import warnings

import numpy as np
import pytest

from netsim import InputError, calibrate

OPTIONAL = ("round", "upload_s", "download_s", "bits", "energy_j", "t", "flops", "model", "batches", "download_bits")


def random_log(rng):
    """Return the text of a log with few rows, constant columns, missing columns and missing cells."""
    names = ["device", "samples", "batch", "compute_s", *(name for name in OPTIONAL if rng.random() < 0.5)]
    constant, spread = rng.random(3) < 0.3, rng.choice([0.0, 0.1, 2.0])
    lines = [",".join(names)]
    for number in range(int(rng.choice([2, 3, 4, 6, 10, 40]))):
        row = {
            "device": f"d{rng.integers(4)}", "samples": 50 if constant[0] else rng.integers(1, 300),
            "batch": 8 if constant[1] else rng.choice([1, 8, 32]), "round": rng.integers(1, 6), "t": 10 * number,
            "compute_s": 1.0 if constant[2] else rng.lognormal(0.0, spread), "upload_s": rng.lognormal(),
            "download_s": rng.lognormal(), "energy_j": rng.lognormal(), "bits": rng.choice([1e6, 2e6]),
            "flops": rng.choice([1e6, 2e6]), "model": rng.choice(["m", "n"]), "batches": rng.integers(1, 30),
            "download_bits": 1e6}
        empty = [name for name in names[3:] if rng.random() < 0.08]
        lines.append(",".join("" if name in empty else str(row[name]) for name in names))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("seed", range(40))
def test_a_random_log(tmp_path, seed):
    (tmp_path / "log.csv").write_text(random_log(np.random.default_rng(seed)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            found = calibrate(tmp_path / "log.csv")
        except InputError:                 # too few rows
            return
        json.dumps(found.as_json(), allow_nan=False)
        assert found.scenario.size >= 1

"""Calibration against known truth, public measurements of phones, and long logs.

    python benchmarks/calibration.py                            # 200 synthetic fleets: coverage of each parameter
    python benchmarks/calibration.py --predictions 60           # of runs with known parameters
    python benchmarks/calibration.py --on-device FOLDER         # of UbiquitousLearning/Benchmark-On-Device-Training
    python benchmarks/calibration.py --flash FOLDER             # of PKU-Chengxu/FLASH
    python benchmarks/calibration.py --rows 10000000            # CPU time and memory of a long log

The measurements are not part of netsim: the first repository has no licence, the second is BSD-2-Clause.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from netsim import Scenario, calibrate, predict, simulate
from netsim.calibration.fits import Fits, fit
from netsim.calibration.fleet_file import CalibratedFleet, columns_of, with_columns

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "calibration"))
from synthetic_fleets import draw_fleet, play

LARGEST_BATCH = 16      # of the on-device measurements: memory may run out beyond
LATENCY = re.compile(r"Training latency o[fn] (\w+) is : ([\d.]+) ms \(batchsize is (\d+)\)")


def fleets(count: int) -> None:
    """Print how often intervals contain the truth, and what held-out predictions cover."""
    hits: dict[str, list[bool]] = {}
    held: list[dict[str, float]] = []
    rounds = 0
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.csv")
        for seed in range(count):
            rng = np.random.default_rng([2032, seed])
            true = draw_fleet(rng, int(rng.integers(3, 30)))
            play(rng, true, int(rng.integers(8, 60))).write_csv(log)
            found = calibrate(log, seed=seed).as_json()
            for name, one in found["devices"].items():
                for key, ends in one.items():
                    truth = true[key][int(name.split()[1])]
                    hits.setdefault(key, []).append(bool(ends["low"] <= truth <= ends["high"]))
            held.append({**found["holdout"], **{f"energy {key}": value
                                                for key, value in found["holdout"]["energy"].items()}})
            rounds += found["holdout"]["rounds"]
    print(f"{count} synthetic fleets of 3 to 29 devices and 8 to 59 rounds")
    for key, each in hits.items():
        print(f"  95 % interval of {key:20} contains the truth in {np.mean(each):.1%} of {len(each):,}")
    weights = [one["rounds"] for one in held]
    for key in ("coverage_50", "coverage_95", "median_error", "energy coverage_50", "energy coverage_95",
                "energy median_error"):
        print(f"  {key:20} {np.average([one[key] for one in held], weights=weights):.1%} of {rounds:,} held-out rounds")


def predictions(count: int, rounds: int = 20) -> None:
    """Print how often the interval of a predicted run contains a run with the true parameters."""
    inside: dict[str, list[bool]] = {"time": [], "energy": []}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(count):
            rng = np.random.default_rng([2033, seed])
            true = draw_fleet(rng, int(rng.integers(3, 15)))
            play(rng, true, int(rng.integers(4, 20))).write_csv(Path(folder, "log.csv"))
            found = calibrate(Path(folder, "log.csv"))
            found.save(Path(folder, "fleet.toml"))
            said = predict(Path(folder, "fleet.toml"), rounds, 20).as_json()
            fleet = found.fleet
            run = simulate(Scenario.of(with_columns(fleet.tables, fleet.names, columns_of(truth(fleet, true)))).with_(
                {"end.rounds": rounds}), seed=10_000 + seed)
            for name, key, value in (("time", "time_s", run.summary["simulated_s"]),
                                     ("energy", "energy_j", run.summary["energy_j"])):
                inside[name].append(bool(said[key]["low"] <= value <= said[key]["high"]))
    print(f"{count} synthetic fleets of 3 to 14 devices, fitted to 4 to 19 rounds, then {rounds} rounds predicted")
    for name, each in inside.items():
        print(f"  95 % interval of {name} contains a run with the true parameters in {np.mean(each):.1%}")


def truth(fleet: CalibratedFleet, true: dict[str, np.ndarray]) -> dict[str, Fits]:
    """Return the laws of a fleet with the true parameters in the place of fitted ones."""
    at = [int(name.split()[1]) for name in fleet.names]
    values = {"compute": (true["seconds_per_batch"], true["seconds_per_sample"], true["compute_sd"]),
              "upload": (np.zeros_like(true["compute_w"]), 1 / true["upload_bits_per_s"], true["upload_sd"]),
              "energy": (true["transmit_w"], true["compute_w"], true["compute_sd"])}
    return {name: replace(fleet.laws[name], value=np.stack([first[at], second[at]], axis=1), sd=sd[at])
            for name, (first, second, sd) in values.items()}


def leave_one_out(unit: np.ndarray, batch: np.ndarray, seconds: np.ndarray, what: str) -> None:
    """Print errors of the affine and of the proportional law for each measurement, predicted by the others."""
    order = np.lexsort((batch, unit))
    place = np.empty(len(unit), np.int64)
    place[order] = np.arange(len(unit)) - np.searchsorted(unit[order], unit[order])
    errors: dict[str, list[float]] = {"overhead + per sample": [], "per sample alone": []}
    for out in range(int(place.max()) + 1):
        rest, test = place != out, place == out
        for name, overhead in zip(errors, (np.ones(rest.sum()), None), strict=True):
            law = fit(unit[rest], overhead, batch[rest], seconds[rest], int(unit.max()) + 1).value[unit[test]]
            errors[name] += np.abs((law[:, 0] + law[:, 1] * batch[test]) / seconds[test] - 1).tolist()
    print(f"{what}: {len(np.unique(unit)):,} devices and models, {len(unit):,} measurements, leave-one-out error")
    for name, each in errors.items():
        print(f"  {name:22} median {np.median(each):.1%}, 90th percentile {np.quantile(each, 0.9):.1%}")


def on_device(folder: Path) -> None:
    rows = [(f"{file.parts[-3]} {name}", int(batch), float(ms) / 1e3)
            for file in sorted(folder.rglob("train_bench_*.result"))
            for name, ms, batch in LATENCY.findall(file.read_text(encoding="utf-8", errors="replace"))
            if int(batch) <= LARGEST_BATCH]
    _, unit = np.unique([row[0] for row in rows], return_inverse=True)
    leave_one_out(unit, np.array([row[1] for row in rows], float), np.array([row[2] for row in rows]),
                  "Training on phones")
    with tempfile.TemporaryDirectory() as place:
        log = Path(place, "log.csv")
        pl.DataFrame(rows, ["device", "samples", "compute_s"], orient="row").with_columns(
            batch=pl.col("samples")).write_csv(log)
        held = calibrate(log).as_json()["holdout"]
    print(f"  `netsim calibrate`: median error {held['median_error']:.1%}, in the 50 % interval "
          f"{held['coverage_50']:.0%}, in the 95 % interval {held['coverage_95']:.0%}")


def flash(folder: Path) -> None:
    units, batches, seconds, known = [], [], [], 0
    for file in sorted(folder.rglob("device_util/regression/*/*.json")):
        table = json.loads(file.read_text(encoding="utf-8"))
        sizes = np.array(table["X"])           # input, output, batch / 50, length
        _, unit = np.unique(sizes[:, [0, 1, 3]], axis=0, return_inverse=True)
        units.append(unit.ravel() + known)
        batches.append(np.rint(50 * sizes[:, 2]))
        seconds.append(np.array(table["Y"], float).ravel())
        known += int(unit.max()) + 1
    leave_one_out(np.concatenate(units), np.concatenate(batches), np.concatenate(seconds),
                  "Layers of networks on the three phones of FLASH")


def long_log(rows: int) -> None:
    """Print CPU time and memory of one calibration, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log.csv")
        rng = np.random.default_rng(1)
        size = min(1000, rows // 10)
        play(rng, draw_fleet(rng, size), rows // size).write_csv(log)
        print(f"{rows:,} rows, {size:,} devices, {log.stat().st_size / 1e6:.0f} MB", flush=True)
        program = [sys.executable, "-m", "netsim", "calibrate", str(log), "--json"]
        began = time.perf_counter()
        done = subprocess.run(program, capture_output=True, text=True, check=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"  {used.ru_utime + used.ru_stime:.0f} s of CPU, {time.perf_counter() - began:.0f} s, "
              f"{used.ru_maxrss / 1e6:.2f} GB; {json.loads(done.stdout)['holdout']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fleets", type=int, default=200)
    parser.add_argument("--predictions", type=int)
    parser.add_argument("--on-device", type=Path)
    parser.add_argument("--flash", type=Path)
    parser.add_argument("--rows", type=int)
    options = parser.parse_args()
    if options.predictions:
        predictions(options.predictions)
    if options.on_device:
        on_device(options.on_device)
    if options.flash:
        flash(options.flash)
    if options.rows:
        long_log(options.rows)
    if not (options.predictions or options.on_device or options.flash or options.rows):
        fleets(options.fleets)


if __name__ == "__main__":
    main()

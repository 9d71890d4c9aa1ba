"""Runs whose files were changed together with their checksums are refused, never followed into a traceback."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from campaign.grammar import living
from fuzzing.folders import make_runs
from fuzzing.forged import forge, forged_case, made, make_forged, sealed, unsealed
from levels import extended

from netsim import InputError, load_run, load_scenario, simulate
from netsim.analysis.export import export
from netsim.base.checksummed import read_arrays, write_arrays
from netsim.report.page import write_report
from netsim.scenario import Scenario
from netsim.server.server import RunProgress


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("whole") / "run"
    simulate(load_scenario("tiny", ["end.rounds=2"]), place)
    return place


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


@pytest.fixture(scope="module")
def whole_learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("learned") / "run"
    simulate(load_scenario("quickstart", ["end.rounds=2", "learning.model=fashion-cnn"]), place, workers=1)
    return place


@pytest.fixture
def learned(whole_learned: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole_learned, tmp_path / "run"))


def signed(run: Path, name: str, table: pl.DataFrame) -> None:
    """Write a table, and a checksum that fits."""
    class Chosen(random.Random):
        def choice(self, seq: list[Path]) -> Path:      # type: ignore[override]
            return run / name

    table.write_parquet(run / name)
    from fuzzing import forged

    forged.FORGERS[".parquet"], kept = (lambda path, chance: ""), forged.FORGERS[".parquet"]
    try:
        forge(run, Chosen())
    finally:
        forged.FORGERS[".parquet"] = kept


@pytest.mark.parametrize(("name", "column", "value"), [
    ("jobs", "staleness", None), ("jobs", "staleness", -1), ("jobs", "device", 99), ("jobs", "device", -1),
    ("jobs", "energy_j", float("nan")), ("jobs", "t1", float("inf")), ("jobs", "outcome", "x"), ("jobs", "round", 0),
    ("jobs", "round", 9), ("trace", "kind", "x"), ("trace", "device", 99), ("trace", "t0", 1e9),
    ("trace", "name", None), ("links", "src", -1), ("links", "dst", None)])
def test_a_value_that_no_run_can_have(run: Path, name: str, column: str, value: object) -> None:
    part = f"{name}/part-00001.parquet"
    table = pl.read_parquet(run / part)
    values = [value, *table[column].to_list()[1:]]
    signed(run, part, table.with_columns(pl.Series(column, values, table[column].dtype)))
    loaded = load_run(run)
    with pytest.raises(InputError) as refused:
        _ = {"jobs": lambda: loaded.jobs, "trace": lambda: loaded.events, "links": lambda: loaded.links}[name]()
    assert refused.value.code == "damaged"
    assert name in refused.value.key


@pytest.mark.parametrize("change", [
    lambda table: table.head(0), lambda table: table.drop("budget_j"),
    lambda table: table.drop("gain"), lambda table: table[::-1],
    lambda table: table.with_columns(made("battery_j", [[1.0]] * len(table), None)), lambda table: table.head(1),
    lambda table: table.with_columns(pl.lit("x").alias("samples")), lambda table: table.with_columns(kind=pl.lit(1)),
    lambda table: table.with_columns(budget_j=pl.lit(float("nan"))), lambda table: pl.concat([table, table])])
def test_devices_that_are_not_those_of_the_scenario(run: Path, change: object) -> None:
    signed(run, "devices.parquet", change(pl.read_parquet(run / "devices.parquet")))      # type: ignore[operator]
    with pytest.raises(InputError) as refused:
        load_run(run).breakdown()
    assert (refused.value.code, "devices" in refused.value.key) == ("damaged", True)


def test_devices_without_their_cycles_are_not_explained(run: Path) -> None:
    signed(run, "devices.parquet", pl.read_parquet(run / "devices.parquet").drop("cycles_per_sample"))
    with pytest.raises(InputError) as refused:
        load_run(run).explain(1)
    assert (refused.value.code, "devices.parquet" in refused.value.key) == ("damaged", True)


@pytest.mark.parametrize(("key", "value"), [
    ("scenario", 3), ("seed", "x"), ("seed", True), ("seed", -7), ("status", []), ("round", -1), ("round", 2**40),
    ("round", True)])
def test_a_run_json_of_other_types(run: Path, key: str, value: object) -> None:
    sealed(run / "run.json", {**unsealed(run / "run.json"), key: value})
    with pytest.raises(InputError, match="run.json"):
        load_run(run)


@pytest.mark.parametrize("format", ["perfetto", "csv", "parquet", "tensorboard"])
def test_a_run_without_rounds_is_not_exported(run: Path, tmp_path: Path, format: str) -> None:
    sealed(run / "run.json", {**unsealed(run / "run.json"), "round": 0})
    with pytest.raises(InputError) as refused:
        export(load_run(run), format, tmp_path / "tfevents")
    assert refused.value.code == "empty"
    assert not (tmp_path / "tfevents").exists()


def test_a_time_beyond_whole_microseconds_is_not_exported_to_perfetto(run: Path, tmp_path: Path) -> None:
    part = "trace/part-00001.parquet"
    rows = pl.read_parquet(run / part)
    signed(run, part, rows.with_columns(t1=pl.when(pl.col("name") == "compute").then(9.2e18).otherwise(pl.col("t1"))))
    with pytest.raises(InputError) as refused:
        export(load_run(run), "perfetto", tmp_path / "run.json")
    assert refused.value.code == "too-large"


@pytest.mark.slow
def test_a_report_of_infinite_counters_is_a_page(learned: Path, tmp_path: Path) -> None:
    """Infinite bandwidth in use, loss and accuracy."""
    infinite = pl.when((pl.col("kind") == "counter") & (pl.col("name") != "cluster")).then(float("inf"))
    for part in sorted(learned.glob("trace/*.parquet")):
        rows = pl.read_parquet(part)
        signed(learned, f"trace/{part.name}", rows.with_columns(value=infinite.otherwise(pl.col("value"))))
    for runs in ([learned], [learned, learned]):
        write_report([load_run(each) for each in runs], tmp_path / "page.html")
        data = (tmp_path / "page.html").read_text("utf-8").partition('type="application/json"')[2]
        assert "Infinity" not in data.partition("<script>")[0]


@pytest.mark.slow
@pytest.mark.parametrize("value", [float("inf"), -1.0, 0.5, 100.0, 2.0**40])
def test_clusters_of_any_number_are_reported(learned: Path, tmp_path: Path, value: float) -> None:
    """A user's method numbers clusters as it likes; a table of clusters by class must not have 2^40 rows."""
    for part in sorted(learned.glob("trace/*.parquet")):
        rows = pl.read_parquet(part)
        forged = pl.when(pl.col("name") == "cluster").then(value).otherwise(pl.col("value"))
        signed(learned, f"trace/{part.name}", rows.with_columns(value=forged))
    assert load_run(learned).events.height
    write_report([load_run(learned)], tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("value", [-1, 2**40])
def test_a_majority_class_that_no_device_has_is_refused(learned: Path, tmp_path: Path, value: int) -> None:
    signed(learned, "devices.parquet", pl.read_parquet(learned / "devices.parquet").with_columns(
        pl.lit(value, pl.Int64).alias("majority_class")))
    with pytest.raises(InputError) as refused:
        write_report([load_run(learned)], tmp_path / "page.html")
    assert refused.value.code == "damaged"


SHAPES = {"column": lambda array: array[..., None], "row": lambda array: array[None], "flat": np.ravel,
          "empty": lambda array: array[..., :0] if array.ndim else array}


@pytest.mark.parametrize("kind", ["U8", "S3", "c16", "M8[s]", "nan", *SHAPES])
def test_a_checkpoint_with_arrays_of_another_type_or_shape(run: Path, kind: str) -> None:
    """Every array in turn: resuming refuses it, or goes on, and raises nothing else."""
    state, refusals = read_arrays(run / "checkpoint.npz"), []
    info = unsealed(run / "run.json")
    for name, array in state.items():
        with np.errstate(invalid="ignore"):
            forged = SHAPES[kind](array) if kind in SHAPES else (
                np.full(array.shape, np.nan) if kind == "nan" else array.astype(kind))
        write_arrays(run / "checkpoint.npz", {**state, name: forged})
        sealed(run / "run.json", {**info, "status": "running"})
        try:
            simulate(load_scenario("tiny", ["end.rounds=2"]), run, resume=True)
        except InputError as refused:
            refusals.append(str(refused))
    assert refusals
    assert all("checkpoint.npz" in refusal for refusal in refusals)


@pytest.mark.parametrize("options", [
    ["learning.optimiser.kind=momentum"], ["learning.optimiser.kind=adam"], ["learning.fedl=0.5"],
    ["server.kind=fedbuff", "server.buffer=2"],
    ["learning.model=own_models:Batches", "learning.buffers=local"]], ids=str)
def test_models_of_another_type_or_shape_do_not_reach_training(tmp_path: Path, options: list[str]) -> None:
    """Resumed after round 1 of 2, so that models of the checkpoint are trained and aggregated."""
    scenario = load_scenario("quickstart", ["end.rounds=2", "selection.method=fedavg", "selection.cohort=3",
                                            "learning.model=fashion-cnn", *options])
    run = tmp_path / "run"
    stop_after(1, scenario, run)
    state, info = read_arrays(run / "checkpoint.npz"), unsealed(run / "run.json")
    changed = [(name, kind) for name in state if name.startswith("learning/") for kind in ("f2", "f4", "f8", *SHAPES)]
    for name, kind in changed:
        with np.errstate(all="ignore"):
            forged = SHAPES[kind](state[name]) if kind in SHAPES else state[name].astype(kind)
        if forged.dtype == state[name].dtype and forged.shape == state[name].shape:
            continue
        write_arrays(run / "checkpoint.npz", {**state, name: forged})
        sealed(run / "run.json", info)
        with pytest.raises(InputError) as refused:
            simulate(scenario, run, workers=1, resume=True, allow_import=True)
        assert refused.value.code == "damaged"


def stop_after(round_: int, scenario: Scenario, run: Path, *more: int, **how: bool) -> None:
    """Leave a run after the checkpoint of a round."""
    def stop(at: RunProgress) -> None:
        if at.round == round_:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(scenario, run, *more, workers=1, progress=stop, allow_import=True, **how)


# Values of checkpoint arrays.
EXTREMES = {
    "most": lambda array: np.full(array.shape, 2**63 - 1), "least": lambda array: np.full(array.shape, -(2**63)),
    "large": lambda array: np.full(array.shape, 1e300 if array.dtype.kind == "f" else 10**6),
    "nan": lambda array: np.full(array.shape, np.nan), "inf": lambda array: np.full(array.shape, np.inf),
    "whole": lambda array: array.astype("i8"), "half": lambda array: array[:len(array) // 2] if array.ndim else array}


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, *extended([3, 5, 14])])
def test_a_checkpoint_with_extreme_numbers_is_refused_or_continued(tmp_path: Path, number: int) -> None:
    """Every array in turn, of a run with batteries, absences, fading and jobs in progress."""
    scenario, run, again = Scenario.of(living(random.Random(f"sys {number}"))), tmp_path / "run", tmp_path / "again"
    with patch("netsim.session.rows_a_part", lambda trains: 1):
        stop_after(2, scenario, run, number, learning=False)
        state, info, refused = read_arrays(run / "checkpoint.npz"), unsealed(run / "run.json"), 0
        for name, kind in itertools.product(state, EXTREMES):
            shutil.rmtree(again, ignore_errors=True)
            shutil.copytree(run, again)
            with np.errstate(all="ignore"):
                write_arrays(again / "checkpoint.npz", {**state, name: EXTREMES[kind](state[name])})
            sealed(again / "run.json", info)
            try:
                simulate(scenario, again, number, learning=False, resume=True)
            except InputError:
                refused += 1
    assert refused > len(state)


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [range(3), *extended([range(3, 12)])])
def test_forged_folders_at_random(tmp_path: Path, numbers: range) -> None:
    make_runs(tmp_path)
    make_forged(tmp_path)
    here = Path.cwd()
    try:
        for number in numbers:
            folder = tmp_path / f"case-{number}"
            folder.mkdir()
            os.chdir(folder)
            forged_case(random.Random(f"test-{number}"), folder, tmp_path)
    finally:
        os.chdir(here)

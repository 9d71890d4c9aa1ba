"""From a calibration to a scenario that runs, and to predictions with intervals."""

import json
import tomllib

import numpy as np
import polars as pl
import pytest
from synthetic_fleets import BITS, draw_fleet, play, write_log

from netsim import InputError, calibrate, load_scenario, predict, simulate
from netsim.base.checksummed import write_object
from netsim.calibration.prediction import interval_of


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    rng = np.random.default_rng(5)
    true = draw_fleet(rng, 6)
    play(rng, true, 20).write_csv(folder / "log.csv")
    found = calibrate(folder / "log.csv")
    found.save(folder / "fleet.toml")
    return folder, found


@pytest.mark.slow
def test_the_scenario_has_the_fitted_times_powers_and_rates(fleet):
    folder, found = fleet
    steady = load_scenario(str(folder / "fleet.toml"))
    tables = tomllib.loads(steady.to_toml())
    for name in ("compute_variation", "upload_variation"):
        del tables["population"][0]["devices"][name]
    run = simulate(type(steady).of(tables).with_({"end.rounds": 1}))
    jobs = run.jobs.join(run.devices.select("device", "name", "samples"), on="device")
    assert jobs.height == 6
    for job in jobs.iter_rows(named=True):
        one = {key: ends["value"] for key, ends in found.as_json()["devices"][job["name"]].items()}
        batches = -(-job["samples"] // steady.learning.batch_size)
        compute_s = batches * one["seconds_per_batch"] + job["samples"] * one["seconds_per_sample"]
        upload_s = BITS / one["upload_bits_per_s"]
        assert job["compute_s"] == pytest.approx(compute_s, rel=1e-4)
        assert job["upload_s"] == pytest.approx(upload_s, rel=1e-4)
        assert job["energy_j"] == pytest.approx(one["compute_w"] * compute_s + one["transmit_w"] * upload_s, rel=1e-4)


def test_runs_of_the_scenario_vary_as_the_log_does(fleet):
    folder, found = fleet
    jobs = simulate(folder / "fleet.toml", seed=2).jobs
    spread = jobs.group_by("device").agg(pl.col("compute_s").log().std()).sort("device")["compute_s"].to_numpy()
    assert spread == pytest.approx(found.laws["compute"].sd, rel=0.4)


def test_a_base_gives_learning_selection_and_end(fleet, tmp_path):
    folder, _ = fleet
    scenario = calibrate(folder / "log.csv", "quickstart").scenario
    assert scenario.learning.dataset == "digits"
    assert scenario.learning.local_epochs == 5
    assert scenario.end.rounds == 12
    assert scenario.size == scenario.selection.cohort == 6


def test_a_prediction_says_how_sure_it_is(fleet):
    folder, found = fleet
    result = predict(folder / "fleet.toml", rounds=5, seeds=6).as_json()
    assert (result["rounds"], result["seeds"]) == (5, 6)
    for name in ("time_s", "energy_j", "round_s"):
        assert 0 < result[name]["low"] < result[name]["value"] < result[name]["high"]
    assert result["time_s"]["value"] == pytest.approx(5 * found.round_s, rel=0.5)
    assert sum(one["share"] for one in result["limits"]) == pytest.approx(1.0)
    assert result["limits"][0]["share"] == max(one["share"] for one in result["limits"])
    json.dumps(result, allow_nan=False)


@pytest.mark.slow
def test_few_measurements_make_wider_predictions(tmp_path):
    widths = []
    for rounds in (3, 60):
        log = write_log(tmp_path / "log.csv", seed=3, size=4, rounds=60)
        pl.read_csv(log).filter(pl.col("round") < rounds).write_csv(log)
        calibrate(log).save(tmp_path / "fleet.toml")
        time_s = predict(tmp_path / "fleet.toml", rounds=8, seeds=6).as_json()["time_s"]
        widths.append(np.log(time_s["high"] / time_s["low"]))
    assert widths[0] > 1.5 * widths[1]


def test_the_interval_of_one_more_run_is_students():
    values = np.exp([0.0, 1.0, 2.0])                        # log: mean 1, sd 1; t(2) = 4.302653
    found = interval_of(values)
    half = 4.30265273 * np.sqrt(4 / 3)
    assert (found["low"], found["high"]) == pytest.approx((np.exp(1 - half), np.exp(1 + half)))


def test_other_keys_may_change_and_calibrated_columns_may_not(fleet, tmp_path):
    folder, _ = fleet
    text = (folder / "fleet.toml").read_text()
    (tmp_path / "fleet.calibration.json").write_bytes((folder / "fleet.calibration.json").read_bytes())
    (tmp_path / "fleet.toml").write_text(text.replace("cohort = 6", "cohort = 2"))
    assert predict(tmp_path / "fleet.toml", rounds=1, seeds=2).as_json()["seeds"] == 2
    with pytest.raises(InputError, match=r"selection\.cohort"):
        predict(tmp_path / "fleet.toml", overrides=["selection.cohort=7"])
    (tmp_path / "fleet.toml").write_text(text.replace("cycles_per_batch = [", "cycles_per_batch = [1"))
    with pytest.raises(InputError, match="draws this column from the calibration"):
        predict(tmp_path / "fleet.toml")


@pytest.mark.parametrize("damage", ["missing", "changed", "no object"])
def test_a_damaged_uncertainty_is_one_error(fleet, tmp_path, damage):
    folder, _ = fleet
    (tmp_path / "fleet.toml").write_bytes((folder / "fleet.toml").read_bytes())
    text = (folder / "fleet.calibration.json").read_text()
    if damage != "missing":
        (tmp_path / "fleet.calibration.json").write_text(
            "[]" if damage == "no object" else text.replace('"rows": [\n', '"rows": [\n 1,\n', 1))
    with pytest.raises(InputError) as caught:
        predict(tmp_path / "fleet.toml")
    assert caught.value.code == ("no-such-file" if damage == "missing" else "damaged")


def test_the_uncertainty_of_another_version_is_not_called_damaged(fleet, tmp_path):
    folder, _ = fleet
    (tmp_path / "fleet.toml").write_bytes((folder / "fleet.toml").read_bytes())
    write_object(tmp_path / "fleet.calibration.json", {"format": 99})
    with pytest.raises(InputError) as caught:
        predict(tmp_path / "fleet.toml")
    assert caught.value.code == "other-version"


@pytest.mark.slow
def test_a_log_of_compute_times_alone_makes_a_fleet_without_uploads(tmp_path):
    log = write_log(tmp_path / "log.csv", without=("bits", "upload_s", "energy_j", "round"))
    calibrate(log).save(tmp_path / "fleet.toml")
    result = predict(tmp_path / "fleet.toml", rounds=2, seeds=2).as_json()
    assert result["energy_j"] is None
    assert result["limited_by"]["compute"] == pytest.approx(1.0, abs=1e-6)


def test_uploads_of_unknown_size_keep_their_duration(tmp_path):
    log = write_log(tmp_path / "log.csv", without=("bits", "energy_j"))
    found = calibrate(log)
    result = found.as_json()
    assert set(result["devices"]["phone 0"]) == {"seconds_per_batch", "seconds_per_sample"}
    assert 0.7 < result["holdout"]["coverage_95"] <= 1
    assert any("no bits" in note for note in found.notes)
    upload_s = pl.read_csv(log).group_by("device").agg(pl.col("upload_s").log().mean().exp()).sort("device")
    jobs = simulate(found.scenario.with_({"end.rounds": 200})).jobs
    seconds = jobs.group_by("device").agg(pl.col("upload_s").log().mean().exp()).sort("device")
    assert seconds["upload_s"].to_list() == pytest.approx(upload_s["upload_s"].to_list(), rel=0.15)


def test_downloads_are_part_of_the_scenario(tmp_path):
    log = write_log(tmp_path / "log.csv")
    pl.read_csv(log).with_columns(download_s=pl.lit(0.5), download_bits=pl.lit(2e6)).write_csv(log)
    jobs = simulate(calibrate(log).scenario.with_({"end.rounds": 1})).spans.filter(pl.col("name") == "download")
    assert jobs.height == 5
    assert (jobs["t1"] - jobs["t0"]).to_list() == pytest.approx([0.5] * 5, rel=1e-4)


def test_devices_that_fail_are_away_in_the_scenario(tmp_path):
    rows = [f"{name},{number},40,8,{'' if (number // 5) % 2 else 2.0},{number * 10}"
            for name in "abcd" for number in range(40)]
    (tmp_path / "log.csv").write_text("device,round,samples,batch,compute_s,t\n" + "\n".join(rows) + "\n")
    table = calibrate(tmp_path / "log.csv").scenario.population[0].availability
    assert table.model == "on-off"
    assert table.on == pytest.approx(50, rel=0.3)


def test_page_and_picture_are_written(fleet):
    folder, _ = fleet
    page = (folder / "fleet.html").read_text()
    assert "<svg" in page
    assert "phone 3" in page
    assert "Content-Security-Policy" in page
    assert (folder / "fleet.png").read_bytes()[:4] == b"\x89PNG"

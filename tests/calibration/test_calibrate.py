"""Logs to fleets: parameters, held-out rounds, scenario, and errors that name what is wrong."""

import json

import numpy as np
import polars as pl
import pytest
from synthetic_fleets import draw_fleet, play, write_log

from netsim import InputError, calibrate
from netsim.calibration.laws import PARAMETERS


def write(path, text):
    path.write_text(text)
    return path


def test_a_log_needs_four_columns(tmp_path):
    # 2 s per batch and 0.5 s per sample, exactly
    log = write(tmp_path / "log.csv", "device,samples,batch,compute_s\na,4,4,4\na,8,4,8\na,8,8,6\na,10,3,13\n")
    found = calibrate(log).as_json()
    assert found["devices"]["a"]["seconds_per_batch"]["value"] == pytest.approx(2.0)
    assert found["devices"]["a"]["seconds_per_sample"]["value"] == pytest.approx(0.5)
    assert set(found["holdout"]) >= {"median_error", "coverage_50", "coverage_95"}
    assert found["holdout"]["median_error"] < 1e-6


def test_batches_and_flops_are_used_where_they_are_given(tmp_path):
    log = write(tmp_path / "log.csv", "device,samples,batch,batches,flops,compute_s\n"
                "a,10,5,4,1e6,9\na,10,5,3,1e6,8\na,20,5,4,1e6,14\na,10,5,4,2e6,14\na,10,5,4,1e6,9\n")
    # 1 s per batch, 0.5 s per sample of 1e6 FLOP
    found = calibrate(log).as_json()
    assert found["flops_per_sample"] == 1e6
    assert found["devices"]["a"]["seconds_per_batch"]["value"] == pytest.approx(1.0)
    assert found["devices"]["a"]["seconds_per_sample"]["value"] == pytest.approx(0.5)


@pytest.mark.slow
def test_intervals_contain_the_truth_and_predictions_cover_held_out_rounds(tmp_path):
    hits, held = {name: [] for name in PARAMETERS}, []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        true = draw_fleet(rng, 10)
        play(rng, true, 25).write_csv(tmp_path / "log.csv")
        found = calibrate(tmp_path / "log.csv").as_json()
        held.append(found["holdout"])
        for name, one in found["devices"].items():
            for key, ends in one.items():
                hits[key].append(ends["low"] <= true[key][int(name.split()[1])] <= ends["high"])
    shares = {name: np.mean(each) for name, each in hits.items() if each}
    assert set(shares) == set(PARAMETERS) - {"download_bits_per_s"}
    assert all(0.88 <= share <= 0.99 for share in shares.values()), shares        # of 120 each
    assert np.mean([one["coverage_50"] for one in held]) == pytest.approx(0.5, abs=0.08)
    assert np.mean([one["coverage_95"] for one in held]) == pytest.approx(0.95, abs=0.05)
    assert np.mean([one["energy"]["coverage_95"] for one in held]) == pytest.approx(0.95, abs=0.05)


def test_the_last_rounds_are_predicted_from_the_first(tmp_path):
    log = write_log(tmp_path / "log.csv", rounds=10)
    held = calibrate(log, holdout=0.5).holdout.rounds
    assert held["round"].to_list() == ["5", "6", "7", "8", "9"]
    table = pl.read_csv(log).filter(pl.col("round") == 7)
    assert held["measured_s"][2] == pytest.approx((table["compute_s"] + table["upload_s"]).max())
    assert held["measured_j"][2] == pytest.approx(table["energy_j"].sum())
    assert (held["low95_s"] <= held["median_s"]).all()
    assert (held["median_s"] <= held["high95_s"]).all()


def test_a_round_with_an_unknown_device_is_not_predicted(tmp_path):
    log = write_log(tmp_path / "log.csv", rounds=10)
    with log.open("a") as file:
        file.write("guest,9,100,8,1e6,3.0,1.0,5.0\n")
    found = calibrate(log).as_json()["holdout"]
    assert found["rounds"] == 9
    assert found["skipped"] == 1


def test_constant_samples_say_what_cannot_be_told_apart(tmp_path):
    log = write(tmp_path / "log.csv", "device,samples,batch,compute_s\n" + "a,40,8,2.0\na,40,8,2.1\na,40,8,1.9\n")
    found = calibrate(log)
    assert set(found.as_json()["devices"]["a"]) == {"seconds_per_sample"}
    assert "seconds_per_batch cannot be separated from seconds_per_sample" in found.notes[0]
    assert any("one device" in note for note in found.notes)


def test_a_device_in_milliseconds_is_noted(tmp_path):
    rows = [f"{name},{samples},8,{samples * cost}" for name, cost in (("a", 0.01), ("b", 0.02), ("c", 15.0))
            for samples in (40, 50, 61, 75)]
    log = write(tmp_path / "log.csv", "device,samples,batch,compute_s\n" + "\n".join(rows) + "\n")
    assert any("c takes 750 times as long" in note for note in calibrate(log).notes)


def test_failed_jobs_give_availability(tmp_path):
    rows = [f"{name},{number},{',,' if (number // 5) % 2 else '40,8,2.0'},{number * 10}"
            for name in "abcd" for number in range(40)]
    log = write(tmp_path / "log.csv", "device,round,samples,batch,compute_s,t\n" + "\n".join(rows) + "\n")
    found = calibrate(log).as_json()["availability"]
    assert found["share"]["value"] == 0.5
    assert found["share"]["low"] < 0.5 < found["share"]["high"]
    assert found["on_s"] == pytest.approx(50, rel=0.3)
    assert found["off_s"] == pytest.approx(50, rel=0.3)


def test_several_models_are_fitted_apart(tmp_path):
    rows = [f"{device},{model},{n},{n},{cost * (1 + n)}" for device in "ab" for model, cost in (("m", 1), ("n", 3))
            for n in (1, 2, 4, 8)]
    log = write(tmp_path / "log.csv", "device,model,samples,batch,compute_s\n" + "\n".join(rows) + "\n")
    devices = calibrate(log).as_json()["devices"]
    assert set(devices) == {"a/m", "a/n", "b/m", "b/n"}
    assert devices["b/n"]["seconds_per_sample"]["value"] == pytest.approx(3.0)


HEAD = "device,round,samples,batch,compute_s\n"
GOOD = "a,1,40,8,2.0\na,2,44,8,2.2\na,3,41,8,2.1\n"


@pytest.mark.parametrize(("text", "code", "said"), [
    ("", "empty", ""),
    (HEAD, "empty", "a header"),
    ("device,round,batch,compute_s\na,1,8,2.0\n", "missing", '"samples"'),
    ("device,samples,batch,compute_ms\na,40,8,2000\n", "wrong-unit", "compute_s: seconds"),
    (HEAD + GOOD + "a,4,40,8,2.0 s\n", "wrong-unit", "line 5"),
    (HEAD + GOOD + "a,4,40,8,-2.0\n", "out-of-range", "line 5"),
    (HEAD + GOOD + "a,4,40,0,2.0\n", "out-of-range", '"batch"'),
    (HEAD + GOOD + "a,4,40,8,inf\n", "not-finite", "line 5"),
    (HEAD + GOOD + ",4,40,8,2.0\n", "empty", '"device"'),
    (HEAD + "a,1,40,8,2.0\n", "needs", "1 row"),
    (HEAD + "a,1,40,8,2.0\nb,1,40,8,2.0\n", "needs", "two or more rows"),
    (HEAD + GOOD + "a,4,40,8,2000\na,5,40,8,2100\n", "wrong-unit", "different units"),
    (HEAD + GOOD + 'a,4,40,8,"2.0\n', "malformed", ""),
])
def test_a_log_at_fault_is_one_clear_error(tmp_path, text, code, said):
    with pytest.raises(InputError) as caught:
        calibrate(write(tmp_path / "log.csv", text))
    assert caught.value.code == code
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_files_are_no_log(tmp_path):
    for path, code in ((tmp_path / "none.csv", "no-such-file"), (tmp_path, "unreadable")):
        with pytest.raises(InputError) as caught:
            calibrate(path)
        assert caught.value.code == code


def test_columns_that_are_not_read_are_named(tmp_path):
    log = write_log(tmp_path / "log.csv")
    pl.read_csv(log).with_columns(colour=pl.lit("red")).write_csv(log)
    assert any("colour" in note for note in calibrate(log).notes)


def test_the_result_is_json(tmp_path):
    found = calibrate(write_log(tmp_path / "log.csv", size=2, rounds=3)).as_json()
    assert json.loads(json.dumps(found, allow_nan=False)) == found

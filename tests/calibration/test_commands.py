"""`netsim calibrate` and `netsim predict` on the command line."""

import json

import pytest
from synthetic_fleets import write_log

from netsim.cli import main


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr("sys.argv", ["netsim", *map(str, words)])
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.slow
def test_calibrate_then_predict(tmp_path, monkeypatch, capsys):
    log = write_log(tmp_path / "log.csv")
    code, out, _ = run(monkeypatch, capsys, "calibrate", log, "-o", tmp_path / "fleet.toml")
    assert code == 0
    assert "median error of a round’s length" in out
    assert "phone 4" in out
    assert {file.name for file in tmp_path.iterdir()} == {
        "log.csv", "fleet.toml", "fleet.calibration.json", "fleet.png", "fleet.html"}
    code, out, _ = run(monkeypatch, capsys, "predict", tmp_path / "fleet.toml", "--rounds", 2, "--seeds", 2)
    assert code == 0
    assert "arrives last" in out
    code, out, _ = run(monkeypatch, capsys, "predict", tmp_path / "fleet.toml", "--rounds", 2, "--seeds", 2, "--json")
    assert set(json.loads(out)) == {
        "rounds", "seeds", "time_s", "energy_j", "dropped", "round_s", "limits", "limited_by"}


def test_json_is_the_only_output(tmp_path, monkeypatch, capsys):
    code, out, _ = run(monkeypatch, capsys, "calibrate", write_log(tmp_path / "log.csv"), "--json")
    found = json.loads(out)
    assert code == 0
    assert set(found["devices"]["phone 0"]["compute_w"]) == {"value", "low", "high"}
    assert {"median_error", "coverage_50", "coverage_95"} <= set(found["holdout"])


def test_what_the_log_cannot_tell_is_said_beside_the_result(tmp_path, monkeypatch, capsys):
    (tmp_path / "log.csv").write_text("device,samples,batch,compute_s\na,40,8,2.0\na,40,8,2.1\na,40,8,1.9\n")
    code, out, err = run(monkeypatch, capsys, "calibrate", tmp_path / "log.csv", "--json")
    assert code == 0
    assert set(json.loads(out)["devices"]["a"]) == {"seconds_per_sample"}
    assert "note: seconds_per_batch cannot be separated from seconds_per_sample for every device" in err


@pytest.mark.parametrize(("words", "said"), [
    (("calibrate", "none.csv"), "there is no such file"),
    (("calibrate", "log.csv", "-o", "fleet.txt"), ".toml"),
    (("calibrate", "log.csv", "-o", "there.toml"), "exists already"),
    (("calibrate", "log.csv", "-o", "log.toml"), "log.png: exists already"),
    (("calibrate", "log.csv", "--holdout", "2"), "between 0 and 1"),
    (("calibrate", "log.csv", "--base", "quickstrat"), "quickstart"),
    (("predict", "log.csv"), "log.csv"),
    (("predict", "there.toml"), "there.toml"),
])
def test_bad_input_is_one_message(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "log.csv", size=2, rounds=3)
    (tmp_path / "there.toml").write_text("")
    (tmp_path / "log.png").write_text("")
    code, out, err = run(monkeypatch, capsys, *words)
    assert code == 2
    assert said in err
    assert "Traceback" not in err
    assert not out

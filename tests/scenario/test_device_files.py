"""Files about devices: matched by name, columns renamed or ignored, recorded times counted from midnight."""

from __future__ import annotations

from pathlib import Path

import pytest
from refused import refused

from netsim import Scenario, load_scenario, simulate
from netsim.devices.population import draw_population
from netsim.environment.availability import AvailabilityModel, shifted
from netsim.environment.channel import Channel
from netsim.scenario.time_varying import Intervals

FLEET = "name,x,y,power\ndoor,10 m,0 m,14 dBm\ncamera,20 m,0 m,17 dBm\ngate,30 m,0 m,20 dBm\n"


def house(folder: Path, cell=None, fleet: str | dict = "fleet.csv", text: str = FLEET, rounds=None, **more):
    (folder / "fleet.csv").write_text(text)
    fleet = str(folder / "fleet.csv") if fleet == "fleet.csv" else {"file": str(folder / "fleet.csv"), **fleet}
    return Scenario.of({
        "cell": {"radius": "50 m", "bandwidth": "1 MHz", **(cell or {})},
        "population": [{"name": "thing", "devices": fleet, "budget": "none", "samples": 10,
                        "cpu": {"min": "50 MHz", "max": "400 MHz", "cycles_per_sample": 5e4}, **more}],
        "learning": {"bits": "200 kbit"}, "selection": {"method": "round-robin", "cohort": 2},
        "end": {"rounds": 2}, **({"rounds": rounds} if rounds else {})})


def recorded(folder: Path, text: str, **more) -> dict:
    (folder / "shifts.csv").write_text(text)
    return {"model": "recorded", "intervals": str(folder / "shifts.csv"), **more}


def test_availability_is_matched_by_name(tmp_path) -> None:
    by_name = recorded(tmp_path, "device,on,off\ngate,0,10\ndoor,5,15\ngate,20,30\n")
    schedule = AvailabilityModel.of(house(tmp_path, availability=by_name), 0)
    assert [schedule.available(t).tolist() for t in (2.0, 12.0, 25.0)] == [
        [False, False, True], [True, False, False], [False, False, True]]       # camera has no row: never there
    by_number = recorded(tmp_path, "device,on,off\n2,0,10\n0,5,15\n1,20,30\n")
    assert AvailabilityModel.of(house(tmp_path, availability=by_number), 0).available(2.0).tolist() == [
        False, False, True]


def test_devices_without_a_file_are_matched_by_their_usual_names(tmp_path) -> None:
    by_name = recorded(tmp_path, "device,on,off\nphone 1,0,10\nphone 0,5,15\n")
    changes = {"population.phone.count": 2, "selection.cohort": 1, "population.phone.availability": by_name}
    schedule = AvailabilityModel.of(load_scenario("paper", changes), 0)
    assert schedule.available(2.0).tolist() == [False, True]


def test_tracks_are_matched_by_name(tmp_path) -> None:
    (tmp_path / "tracks.csv").write_text("device,t,x,y\ngate,0,3,0\ndoor,0,1,0\ncamera,0,2,0\n")
    moving = {"model": "recorded", "tracks": str(tmp_path / "tracks.csv")}
    text = "name,power\ndoor,14 dBm\ncamera,17 dBm\ngate,20 dBm\n"
    population = draw_population(house(tmp_path, text=text, mobility=moving), 0)
    assert population.x_m.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("header", ["gate,door,camera", "t,gate,door,camera"])
def test_gain_traces_are_matched_by_name(tmp_path, header) -> None:
    rows = ["-70,-80,-90", "-71,-81,-91"]
    timed = header.startswith("t")
    (tmp_path / "gains.csv").write_text("\n".join([header, *(f"{10 * i},{row}" if timed else row
                                                             for i, row in enumerate(rows))]))
    scenario = house(tmp_path, {"gain_trace": str(tmp_path / "gains.csv")})
    assert scenario.cell.gain_trace.db == ((-80.0, -90.0, -70.0), (-81.0, -91.0, -71.0))
    (tmp_path / "gains.csv").write_text("-80,-90,-70\n-81,-91,-71\n")             # without a header: by position
    same = house(tmp_path, {"gain_trace": str(tmp_path / "gains.csv")})
    if not timed:
        assert same.digest == scenario.digest
        assert simulate(same).info["trace_sha256"] == simulate(scenario).info["trace_sha256"]


def test_a_header_that_names_nothing_is_left_out_where_devices_have_no_names(tmp_path) -> None:
    (tmp_path / "gains.csv").write_text("a,b,c\n-80,-90,-70\n")
    text = "x,y,power\n1 m,0 m,14 dBm\n2 m,0 m,17 dBm\n3 m,0 m,20 dBm\n"
    scenario = house(tmp_path, {"gain_trace": str(tmp_path / "gains.csv")}, text=text)
    assert scenario.cell.gain_trace.db == ((-80.0, -90.0, -70.0),)


TWICE = FLEET.replace("gate", "door")
GAINS = "gate,door,camera\n-70,-80,-90\n"


@pytest.mark.parametrize(("shifts", "gains", "fleet", "code", "key"), [
    ("device,on,off\ngate,0,10\ncamra,5,15\n", None, FLEET, "unknown-name", 'column "device"'),
    ("device,on,off\nfoo,0,10\n", None, FLEET, "unknown-name", 'column "device"'),
    ("device,on,off\ndoor,0,10\n", None, TWICE, "duplicate", "shifts.csv"),
    (None, GAINS.replace("camera", "lamp"), FLEET, "unknown-name", "column 3"),
    (None, GAINS.replace("camera", "gate"), FLEET, "duplicate", "gains.csv"),
    (None, "gate,door\n-70,-80\n", FLEET, "missing", "gains.csv"),
    (None, GAINS, TWICE, "duplicate", "gains.csv"),
])
def test_names_that_do_not_fit_are_refused(tmp_path, shifts, gains, fleet, code, key) -> None:
    with refused(code, key) as error:
        (tmp_path / "gains.csv").write_text(gains or "")
        house(tmp_path, {"gain_trace": str(tmp_path / "gains.csv")} if gains else None, text=fleet,
              **({"availability": recorded(tmp_path, shifts)} if shifts else {}))
    assert "camra" not in str(error.value) or "Did you mean \"camera\"?" in str(error.value)


MEASURED = "serial,name,tx,x,y,battery [Wh],owner\n9,door,14,10 m,0 m,2.5,me\n8,gate,17,20 m,0 m,mains,you\n"


@pytest.mark.parametrize("ignore", [["serial", "owner"], "others"])
def test_columns_are_renamed_and_ignored_and_carry_units(tmp_path, ignore) -> None:
    fleet = {"rename": {"tx": "power [dBm]"}, "ignore": ignore}
    devices = house(tmp_path, fleet=fleet, text=MEASURED).population[0].devices
    assert set(devices.columns()) == {"name", "power", "x", "y", "battery"}
    assert [float(power) for power in devices.power] == pytest.approx([10**1.4 / 1000, 10**1.7 / 1000])
    assert devices.battery == (9000.0, "mains")


@pytest.mark.parametrize(("fleet", "code", "key"), [
    ("fleet.csv", "unknown-key", "column 1"),
    ({"rename": {"tx": "power [dBm]"}, "ignore": ["tx", "serial"]}, "conflict", "population.devices.ignore"),
    ({"rename": {"tx": "power [dBm]", "owner": "name"}, "ignore": ["serial"]}, "duplicate", 'column "name"'),
    ({"rename": {"tv": "power"}}, "unknown-name", "population.devices.rename"),
    ({"ignore": ["color"]}, "unknown-name", "population.devices.ignore"),
    ({"ignore": "some"}, "wrong-type", "population.devices.ignore"),
    ({"rename": {"tx": 3}}, "wrong-type", "population.devices.rename"),
    ({"colums": []}, "unknown-key", "population.devices"),
    ({"rename": {"tx": "power [parsec]"}, "ignore": "others"}, "wrong-unit", 'column "power"'),
])
def test_choices_of_columns_that_do_not_fit_are_refused(tmp_path, fleet, code, key) -> None:
    with refused(code, key):
        house(tmp_path, fleet=fleet, text=MEASURED)


def test_another_file_replaces_the_devices_of_a_base(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet.csv").write_text(FLEET)
    (tmp_path / "other.csv").write_text(FLEET.replace("power", "tx"))
    base = house(tmp_path).with_({"population.thing.devices": {"file": "other.csv", "rename": {"tx": "power"}}})
    assert base.digest == house(tmp_path).digest


# A device that is on duty from 22:00 to 06:00, seen by runs that start at different times of the day.
NIGHT = Intervals(on=(0.0, 79200.0), off=(21600.0, 86400.0))


@pytest.mark.parametrize(("starts_h", "on", "off"), [
    (0, (0, 22), (6, 24)), (22, (0,), (8,)), (5, (0, 17), (1, 24)), (6, (16,), (24,)), (12, (10,), (18,))])
def test_windows_of_a_day_as_a_run_sees_them(starts_h, on, off) -> None:
    seen = shifted(NIGHT, 86400.0, -3600.0 * starts_h)
    assert {h for a, b in zip(seen.on, seen.off, strict=True) for h in range(int(a / 3600), int(b / 3600))} == {
        h for a, b in zip(on, off, strict=True) for h in range(a, b)}


def test_windows_that_have_passed_are_left_out() -> None:
    seen = shifted(Intervals(on=(0.0, 50.0, 100.0), off=(10.0, 80.0, 120.0)), None, -60.0)
    assert (seen.on, seen.off) == ((0.0, 40.0), (20.0, 60.0))


def test_a_run_starts_in_the_evening(tmp_path) -> None:
    rows = "device,on,off\n" + "".join(f"{name},75600,86400\n{name},0,3600\n" for name in ("door",))
    rows += "gate,36000,72000\ncamera,0,86400\n"
    rows = "\n".join(sorted(rows.splitlines()[1:], key=lambda row: float(row.split(",")[1])))
    shifts = recorded(tmp_path, "device,on,off\n" + rows, period="24 h")
    schedule = AvailabilityModel.of(house(tmp_path, rounds={"starts_at": "21:30"}, availability=shifts), 0)
    hours = [schedule.available(3600.0 * hour).tolist() for hour in (0.0, 3.0, 4.0, 14.0)]
    assert hours == [[True, True, False], [True, True, False], [False, True, False], [False, True, True]]


def test_recorded_gains_and_tracks_count_from_midnight_too(tmp_path) -> None:
    (tmp_path / "gains.csv").write_text("t,door,camera,gate\n0,-70,-70,-70\n3600,-80,-80,-80\n7200,-90,-90,-90\n")
    scenario = house(tmp_path, {"gain_trace": str(tmp_path / "gains.csv")}, rounds={"starts_at": "01:30"})
    channel = Channel(scenario, draw_population(scenario, 0), 0)
    assert channel.gain([0], 0.0, 1)[0] == pytest.approx(1e-8)
    assert channel.next_change(0.0) == 1800.0
    assert channel.gain([0], 1800.0, 1)[0] == pytest.approx(1e-9)
    (tmp_path / "tracks.csv").write_text("device,t,x,y\n" + "".join(f"{d},0,0,0\n{d},7200,200,0\n" for d in range(3)))
    text = "name,power\ndoor,14 dBm\ncamera,17 dBm\ngate,20 dBm\n"
    walks = house(tmp_path, text=text, rounds={"starts_at": "01:00"},
                  mobility={"model": "recorded", "tracks": str(tmp_path / "tracks.csv")})
    assert draw_population(walks, 0).x_m.tolist() == [100.0] * 3

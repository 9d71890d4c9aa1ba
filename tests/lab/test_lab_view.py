"""What the lab computes is what `netsim allocate` computes for the scenario that it exports."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from netsim.allocation import Problem, allocate, plan_for
from netsim.cli import app
from netsim.lab import captions, charts
from netsim.lab.formulas import device_formulas
from netsim.lab.playback import playback, player
from netsim.lab.round_model import look, single_last_device
from netsim.lab.settings import Settings
from netsim.sample_problem import compare_methods
from netsim.scenario import load_scenario

SLOW = Settings()                                              # equal shares wait for one device
STUCK = Settings(seed=3)                                       # equal shares have no plan, sao has one
HOPELESS = Settings(cohort=100, budget_mj=(2.0, 2.0))          # nobody has one


def of(chosen: Settings):
    return look(chosen.scenario(), chosen.methods, chosen.seed)


positions = st.builds(
    Settings, bandwidth_mhz=st.sampled_from([1, 7, 20, 100]), power_dbm=st.sampled_from([0, 9, 23, 30]),
    budget_mj=st.sampled_from([(15, 30), (20, 20), (2, 200), (5, 8)]), cohort=st.sampled_from([1, 2, 10, 35]),
    model_kbit=st.sampled_from([10, 448, 3640]), cpu_ghz=st.sampled_from([(0.2, 2.0), (0.1, 4.0), (1.0, 1.0)]),
    seed=st.integers(0, 99))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@example(Settings(cohort=1, budget_mj=(0.1, 0.1)))             # alone, and without a plan
@given(positions)
def test_every_position_of_the_sliders_is_drawn_and_agrees_with_allocate_on_the_exported_file(tmp_path_factory, chosen):
    file = tmp_path_factory.mktemp("export") / "my-lab.toml"
    file.write_text(chosen.scenario_file(), encoding="utf-8")
    view = of(chosen)
    results = compare_methods(load_scenario(file), chosen.methods, chosen.seed)
    for answer, result in zip(view.answers, results, strict=True):
        assert (answer.plan and answer.plan.round_s) == (result.plan and result.plan.round_s)
        assert "nan" not in captions.headline(view, answer)
    for drawing in (charts.sheet(view), charts.latency(view).svg()):
        assert "nan" not in drawing
        ElementTree.fromstring(drawing)


def test_the_file_says_which_command_shows_the_same_round(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-lab.toml").write_text(SLOW.scenario_file())
    command = re.search(r"netsim (allocate .*)", SLOW.scenario_file()).group(1)
    printed = CliRunner().invoke(app, [*command.split(), "--json"])
    assert [entry["round_s"] for entry in json.loads(printed.output)] == [plan.round_s for plan in of(SLOW).plans]


def test_who_can_not_and_why():
    equal, sao = of(STUCK).answers
    assert sao.plan is not None
    assert equal.plan is None
    number = int(of(STUCK).devices[equal.stuck[0]])
    said = captions.headline(of(STUCK), equal)
    assert f"device {number}: budget below the least possible energy (device {number}: " in said
    picture = ElementTree.fromstring(charts.gantt(of(STUCK), equal).svg())
    assert [text.text for text in picture.iter() if text.get("fill") == charts.CRITICAL] == ["can't keep its budget"]
    hopeless = of(HOPELESS)
    assert hopeless.plans == []
    assert charts.sheet(hopeless).count("no plan keeps every budget") == 2 + 2      # the headings and the bars of means


def test_under_sao_nobody_is_waited_for():
    equal, sao = (answer.plan for answer in of(SLOW).answers)
    assert single_last_device(equal) == int(np.argmax(equal.end_s))
    assert single_last_device(sao) is None


def test_bars_are_as_long_as_the_plan_says():
    view = of(SLOW)
    plan = view.answers[0].plan
    picture = ElementTree.fromstring(charts.gantt(view, view.answers[0]).svg())
    bars = {part: [bar for bar in picture.iter() if bar.get("class") == part] for part in ("compute", "upload", "wait")}
    scale = (charts.WIDTH - 12 - charts.LEFT) / (1.02 * view.longest_s)
    lengths = {"compute": plan.compute_s, "upload": plan.upload_s, "wait": plan.round_s - plan.end_s}
    for part, seconds in lengths.items():
        drawn = [float(bar.get("width")) for bar in bars[part]]
        assert drawn == pytest.approx(scale * seconds[view.order], abs=0.01)


def test_the_means_add_up_to_the_round():
    for plan in of(SLOW).plans:
        assert sum(charts.parts_ms(plan)) == pytest.approx(1e3 * plan.round_s, rel=1e-12)


def test_slow_motion_shows_the_simulated_round():
    view = of(SLOW)
    for answer in view.answers:
        shown = playback(view, answer)
        ends = [event["t"] for event in shown["events"]]
        assert ends == sorted(ends)
        assert ends[-1] == pytest.approx(1e3 * answer.plan.round_s, rel=1e-9)
        assert len(ends) == 1 + 2 * len(view.devices) + 1          # start, compute and upload of each, aggregation
        for device in shown["devices"]:
            position = view.devices.tolist().index(device["number"])
            assert device["spans"][-1]["t1"] == pytest.approx(1e3 * answer.plan.end_s[position], rel=1e-9)
    assert player(view).count('type="application/json">{"rounds"') == 1


def test_a_device_that_can_be_worked_out_by_hand():
    problem = Problem(bits=1e6, cycles=1e8, capacitance=1e-28, gain=3e-13, power_w=0.1, budget_j=0.03, cpu_min_hz=1e8,
                      cpu_max_hz=2e9, bandwidth_hz=2e6, noise_w_per_hz=1e-20)
    # J = 3e-13 * 0.1 / 1e-20 = 3 MHz; b = 1 MHz: r = log2(4) = 2 Mbit/s;
    # 0.5 s and 50 mJ to send, 0.1 s and 10 mJ to compute
    plan = plan_for(problem, np.array([1e6]), np.array([1e9]))
    said = device_formulas(problem, plan, 0)
    for piece in (r"3\,\text{MHz}", r"2\,\text{Mbit/s}", r"\mathbf{500\,\text{ms}}", r"\mathbf{100\,\text{ms}}",
                  r"\mathbf{600\,\text{ms}}", r"10\,\text{mJ}", r"50\,\text{mJ}",
                  r"\mathbf{60\,\text{mJ}} > e = 30\,\text{mJ}"):
        assert piece in said
    rich = replace(problem, budget_j=0.06)
    kept = device_formulas(rich, plan_for(rich, plan.bandwidth_hz, plan.cpu_hz), 0)
    assert r"\mathbf{60\,\text{mJ}} \le e = 60\,\text{mJ}" in kept


def test_many_devices_show_the_slowest():
    view = of(Settings(cohort=100, budget_mj=(60.0, 60.0)))
    assert "the 40 slowest of 100" in charts.gantt(view, view.answers[1]).svg()
    assert len(playback(view, view.answers[1])["devices"]) == 40


# Who sets the pace.

def test_all_end_together_and_yet_one_sets_the_pace():
    """The lab as it opens: twice device 73's budget saves what a plan with it shows, and the band saves less."""
    view = look(SLOW.scenario(), ("sao",), SLOW.seed)
    answer, = view.answers
    n = answer.limiting_device
    assert single_last_device(answer.plan) is None
    assert view.devices[n] == 73
    more = replace(view.problem, budget_j=np.where(np.arange(len(view.problem)) == n, 2.0, 1.0) * view.problem.budget_j)
    assert answer.pace.saves_s == pytest.approx(answer.plan.round_s - allocate(more).round_s, abs=1e-12)
    wider = replace(view.problem, bandwidth_hz=2 * view.problem.bandwidth_hz)
    assert answer.plan.round_s - allocate(wider).round_s < answer.pace.saves_s
    said = captions.headline(view, answer)
    assert "all devices finish together" in said
    assert ("Device 73 limits the round. Doubling its energy budget (to 34.65 mJ) would shorten the round by 46.1 ms"
            in said)


def test_where_no_single_one_does_it_is_said():
    rich = Settings(budget_mj=(60, 60))
    view = look(rich.scenario(), ("equal", "sao", "fedl"), rich.seed)
    equal, sao, fedl = (captions.headline(view, answer) for answer in view.answers)
    assert "Raising the limits of device 73 alone would help less. Doubling the bandwidth (to 40 MHz) would" in equal
    assert "No single device limits the round. Doubling the bandwidth (to 40 MHz) would shorten" in sao
    assert "limits the round" not in fedl                    # which has no prices
    assert view.answers[1].limiting_device is None

"""The lab with a band that is shared in time: bars, the band as an area, slow motion."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from netsim.allocation import allocate
from netsim.cell.schedulers import SCHEDULERS
from netsim.lab import charts
from netsim.lab.playback import playback
from netsim.lab.round_model import look
from netsim.lab.settings import Settings


def of(*methods: str, sharing: str = "planned"):
    chosen = Settings(methods=methods, sharing=sharing, seed=0)
    return look(chosen.scenario(), chosen.methods, chosen.seed)


@pytest.mark.parametrize("sharing", SCHEDULERS)
def test_the_band_is_drawn_and_never_oversold(sharing):
    view = of("sao", "sao-joint", sharing=sharing)
    for answer in view.answers:
        edges, hertz = charts.shares_over_time(answer.plan)
        assert hertz.sum(axis=1).max() <= view.problem.bandwidth_hz * (1 + 1e-9)
        air = (hertz > 0).T @ np.diff(edges)
        assert air == pytest.approx(answer.plan.upload_s, rel=1e-9)
        areas = [part for part in ElementTree.fromstring(charts.band(view, answer).svg()).iter()
                 if part.get("class") == "area"]
        assert len(areas) == len(view.devices)
    ElementTree.fromstring(charts.sheet(view))


def test_a_common_end_is_no_later_than_the_plan():
    planned, shared = of("sao").plans[0], of("sao", sharing="adaptive").plans[0]
    assert shared.round_s < planned.round_s == allocate(of("sao").problem).round_s
    assert shared.cpu_hz.tolist() == planned.cpu_hz.tolist()


def test_slow_motion_says_who_waits_for_its_turn():
    view = of("sao", sharing="tdma")
    told = " ".join(event["text"] for event in playback(view, view.answers[0])["events"])
    assert "waits for its turn" in told
    assert "it is the turn of device" in told
    assert "lies idle" not in told


def test_the_file_says_how_the_band_is_shared():
    text = Settings(sharing="adaptive").scenario_file()
    assert 'scheduler = "adaptive"' in text
    assert "scheduler" not in Settings().scenario_file()

"""Schedulers, channels, path losses and servers of a user's own, by the same registry as methods and models."""

import math
import sys
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import polars as pl
import pytest
from refused import refused

from netsim import load_scenario, simulate
from netsim.base.errors import InputError
from netsim.base.fields import Decibels
from netsim.cell.schedulers import SCHEDULERS
from netsim.devices.link_model import LINKS, PATH_LOSSES
from netsim.environment.channel import CHANNELS
from netsim.physics import free_space_loss
from netsim.server import SERVERS
from netsim.server.synchronous import SynchronousServer, WaitForAll
from netsim.validation import validate


class Halves:
    """The first two share, the others wait."""

    fixed = False

    def bandwidth(self, active, now):
        hertz = np.zeros(len(active.left_bits))
        hertz[:2] = active.bandwidth_hz / 2
        return hertz


class Oversold(Halves):
    def bandwidth(self, active, now):
        return np.full(len(active.left_bits), active.bandwidth_hz)


class Unsure(Halves):
    def bandwidth(self, active, now):
        return np.full(len(active.left_bits), np.nan)


class Failing(Halves):
    def bandwidth(self, active, now):
        return super().bandwidth(active, 1 / 0)


class Better:
    """Every round twice the gain of the one before."""

    changes = True

    def __init__(self, scenario, population, seed):
        self.start = population.gain

    def gain(self, devices, t, round):
        return self.start[devices] * 2.0**round

    mean = gain

    def next_change(self, t):
        return math.inf


class Gone(Better):
    """Changes every millisecond, and fails when a device asks in the middle of a round."""

    def gain(self, devices, t, round):
        return self.start[devices] if t == 0.0 else [][0]

    mean = gain

    def next_change(self, t):
        return t + 1e-3


class Breaks(SynchronousServer):
    def select(self):
        return super().select() if self.rounds.version == 0 else {}["model"]


class Broken(WaitForAll):
    loop = Breaks


class FewRounds(SynchronousServer):
    def ended(self):
        return super().ended() or self.rounds.version >= self.strategy.patience


@dataclass(frozen=True, kw_only=True)
class Impatient(WaitForAll):
    """Plays no more rounds than it is told."""

    loop = FewRounds
    patience: int = 2


class OneMillisecond(SynchronousServer):
    patience_s = 1e-3


class Hasty(WaitForAll):
    """Waits for no device."""

    loop = OneMillisecond


def walls(distance_m, each: Decibels, walls: int = 1):
    """A path loss that does not depend on distance."""
    return np.full(len(distance_m), each * walls)


class Steps:
    """Four steps of modulation and coding: the rate falls where a wider band loses one."""

    ratios, carried = np.array([0.2, 1.0, 4.0, 20.0]), np.array([0.15, 0.6, 1.6, 3.2])

    def __init__(self, factor: float = 1.0):
        self.factor = factor

    def rate(self, hz, snr_hz):
        with np.errstate(divide="ignore"):
            step = np.searchsorted(self.ratios, snr_hz / hz * (1 + 1e-12), side="right")
        return self.factor * hz * np.append(0.0, self.carried)[step]

    def bandwidth(self, rate, snr_hz):
        hz = rate[:, None] / (self.factor * self.carried)
        return np.where(hz <= snr_hz[:, None] / self.ratios * (1 + 1e-13), hz, np.inf).min(axis=1)


class NoInverse(Steps):
    def bandwidth(self, rate, snr_hz):
        return rate / 0.15


class Infinite(Steps):
    def rate(self, hz, snr_hz):
        return np.full(len(hz), np.inf)


class Scalar(Steps):
    def rate(self, hz, snr_hz):
        return 1.0


class Crashing(Steps):
    def rate(self, hz, snr_hz):
        return hz[1_000_000]


@pytest.fixture(autouse=True)
def mylab(monkeypatch):
    module = ModuleType("mylab")
    vars(module).update(Halves=Halves, Oversold=Oversold, Unsure=Unsure, Failing=Failing, Gone=Gone,
                        Broken=Broken, Better=Better, Impatient=Impatient, Hasty=Hasty, walls=walls,
                        silent=lambda distance_m: None, Steps=Steps, NoInverse=NoInverse, Infinite=Infinite,
                        Scalar=Scalar, Crashing=Crashing)
    monkeypatch.setitem(sys.modules, "mylab", module)


def play(*changes):
    return simulate(load_scenario("tiny", list(changes)), allow_import=True)


def test_a_discipline_by_name_and_of_your_own():
    planned = play().rounds["round_s"][0]
    assert play("allocation.sharing=planned").rounds["round_s"][0] == planned
    assert play("allocation.sharing=equal").rounds["round_s"][0] < planned      # what is free is given away again
    run = play("allocation.sharing=mylab:Halves")
    assert run.jobs["wait_s"].max() > 0.0
    assert run.jobs["outcome"].unique().to_list() == ["arrived"]


@pytest.mark.parametrize(("name", "said"), [
    ("Oversold", r"ValueError: returned \[.*\] Hz in a band of"), ("Unsure", r"ValueError: returned \[.*nan.*\] Hz"),
    ("Failing", r"1 / 0\): ZeroDivisionError: division by zero")])
def test_a_scheduler_that_misbehaves_is_reported_with_round_time_and_line(name, said):
    where = rf"^round 1, scheduler {name}, line \d+ of .*test_brought_along.*"
    with pytest.raises(InputError, match=where + said + r".* \(at 0\.\d+ s\)$"):
        play(f"allocation.sharing=mylab:{name}")


def test_a_server_that_fails_in_the_middle_of_a_run_is_reported_with_round_time_and_line():
    with pytest.raises(InputError, match=r"^round 2, server mylab:Broken, line \d+ .*'model' \(at 0\.\d+ s\)$"):
        play("server.kind=mylab:Broken")


def test_a_channel_that_fails_in_the_middle_of_a_round_is_reported_with_round_time_and_line():
    with pytest.raises(InputError, match=r"^round 1, channel mylab:Gone, line \d+ .*IndexError: .*\(at 0\.\d+ s\)$"):
        play("cell.channel=mylab:Gone")


def test_a_channel_of_your_own():
    rounds = play("cell.channel=mylab:Better")
    gains = rounds.jobs.filter(rounds.jobs["device"] == 0)["gain"].to_list()
    assert gains[1] == pytest.approx(2 * gains[0])
    assert rounds.rounds["upload_s"][1] < rounds.rounds["upload_s"][0]
    with pytest.raises(InputError, match="channel of your own"):
        load_scenario("tiny", ["cell.channel=mylab:Better", "cell.fading=rayleigh"])


def test_a_path_loss_by_name_and_of_your_own():
    def gains(*changes):
        return play(*changes).jobs["gain"]

    assert (gains('cell.path_loss={model="free-space",frequency="2 GHz"}') > gains()).all()      # 100 dB at 1 km
    walls = gains('cell.path_loss={model="mylab:walls",each="3 dB",walls=4}')
    assert np.allclose(10 * np.log10(walls), -12.0)
    with pytest.raises(InputError, match=r"cell.path_loss.each: is missing"):
        play("cell.path_loss.model=mylab:walls")
    with pytest.raises(InputError, match=r'cell.path_loss.each: .*found "3 m"'):
        play('cell.path_loss={model="mylab:walls",each="3 m"}')
    with pytest.raises(InputError, match="one loss in dB for each of 5 distances"):
        play("cell.path_loss.model=mylab:silent")
    with pytest.raises(InputError, match='unknown name .found "rural"; expected free-space or log-distance'):
        load_scenario("tiny", ["cell.path_loss.model=rural"])


@pytest.mark.parametrize(("changes", "found"), [
    (['cell.path_loss={model="free-space",frequency="1e59 Hz"}'], "1086.43 dB"),
    (['cell.path_loss={model="free-space",frequency="1e-59 Hz"}'], "-1287.55 dB"),
    (["cell.path_loss.intercept=-499 dB"], "-519 dB"), (["cell.path_loss.slope=-499 dB"], "599 dB"),
    (["cell.radius=1e30 m", "population.node.places=null", "population.node.count=5"], "")])
def test_a_built_in_path_loss_beyond_all_bounds_is_attributed_to_its_keys(changes, found):
    with refused("out-of-range", "cell.path_loss") as refusal:
        play(*changes)
    assert refusal.value.key == "cell.path_loss"
    assert found in refusal.value.found


@pytest.mark.parametrize("method", ["sao", "equal", "tdma"])
@pytest.mark.parametrize("sharing", ["planned", "adaptive"])
def test_a_link_model_of_your_own_is_planned_and_played(method, sharing):
    changes = ['cell.rate={model="mylab:Steps",factor=0.9}', f"allocation.method={method}",
               f"allocation.sharing={sharing}", 'population.node.budget="1 J"']
    run = play(*changes, 'cell.downlink={power="40 dBm"}')
    assert run.jobs["outcome"].unique().to_list() == ["arrived"]
    if sharing == "planned":
        assert (run.jobs["t1"] - run.jobs["t0"] - run.spans.filter(pl.col("name") == "download")["t1"].min()
                ).max() == pytest.approx(run.jobs["planned_s"].max(), rel=1e-9)


def test_a_link_model_of_a_python_session():
    run = simulate("tiny", link=Steps)
    assert run.rounds["round_s"].to_list() == play("cell.rate.model=mylab:Steps").rounds["round_s"].to_list()


@pytest.mark.parametrize(("name", "code"), [
    ("NoInverse", "wrong-answer"), ("Infinite", "wrong-answer"), ("Scalar", "wrong-answer"), ("Crashing", "your-code"),
    ("walls", "wrong-interface")])
def test_a_link_model_that_misbehaves_is_reported_before_the_run(name, code):
    with pytest.raises(InputError) as refused:
        validate(load_scenario("tiny", [f"cell.rate.model=mylab:{name}"]), learning=False, allow_import=True)
    assert refused.value.code == code
    assert refused.value.key in ("cell.link.model", f"link model mylab:{name}")


def test_methods_that_need_shannon_refuse_a_link_model_of_your_own():
    for change, key in (("allocation.method=fedl", "allocation.method"), ("selection.method=rra", "selection.method")):
        with pytest.raises(InputError) as refused:
            validate(load_scenario("tiny", ["cell.rate.model=mylab:Steps", change]), learning=False, allow_import=True)
        assert (refused.value.code, refused.value.key) == ("unsupported", key)


def test_free_space_by_hand():
    assert free_space_loss(1000.0, 2.4e9) == pytest.approx(100.05, abs=0.01)       # the textbook's 100 dB at 1 km
    assert free_space_loss(2000.0, 1e9) - free_space_loss(1000.0, 1e9) == pytest.approx(20 * np.log10(2))


def test_a_server_of_your_own_with_options():
    assert play("server.kind=mylab:Impatient").summary["rounds"] == 2
    assert play("server.kind=mylab:Impatient", "server.patience=1").summary["rounds"] == 1
    with pytest.raises(InputError, match="patience"):
        play("server.kind=mylab:Impatient", 'server.patience="long"')


@pytest.mark.parametrize("key", ["allocation.sharing", "cell.channel", "server.kind", "cell.path_loss.model",
                                 "cell.rate.model"])
def test_what_is_of_another_kind_or_not_allowed_is_refused(key):
    with pytest.raises(InputError, match="is no|does not offer"):
        validate(load_scenario("tiny", [f"{key}=fractions:Fraction"]), learning=False, allow_import=True)
    with pytest.raises(InputError, match="--allow-import"):
        validate(load_scenario("tiny", [f"{key}=mylab:Halves"]), learning=False)


def test_each_registry_makes_all_that_it_names():
    for registry in (SCHEDULERS, CHANNELS, SERVERS, PATH_LOSSES, LINKS):
        for name in registry:
            assert registry.find(name)


def test_a_key_that_is_not_given_does_not_change_the_digest():
    plain = load_scenario("paper").to_toml()
    assert "sharing" not in plain
    assert "[server]" not in plain


@pytest.mark.parametrize("changes", [["allocation.sharing=tdma"], ["allocation.sharing=equal"],
                                     ["allocation.sharing=adaptive"], ["allocation.method=tdma"],
                                     ["allocation.sharing=adaptive", "cell.fading=rayleigh", "rounds.deadline=60ms"],
                                     ["allocation.sharing=tdma", "population.node.battery=8mJ"]])
def test_a_run_that_shares_the_band_in_time_is_explained_by_rounds_that_can_be_simulated(changes):
    run, wider = play(*changes), play(*changes, "cell.bandwidth=10MHz")
    explained = run.explain(1)
    row = next(each for each in explained.what_if if each.key == "bandwidth" and each.factor == 2.0)
    assert row.round_s == pytest.approx(wider.rounds["round_s"][0], rel=1e-9)
    assert run.critical_path().length_s == run.summary["simulated_s"]


@pytest.mark.parametrize("changes", [
    ("allocation.sharing=tdma",), ("allocation.sharing=mylab:Halves",), ("server.kind=mylab:Impatient",),
    ("cell.channel=mylab:Better", "allocation.sharing=equal")])
def test_what_is_brought_along_is_explained(changes):
    run = play(*changes)
    told = run.explain(2, allow_import=True, methods=False)
    assert told.round_s == run.rounds["round_s"][1]
    assert told.what_if[0].saves_s > 0.0


@pytest.mark.slow
def test_rounds_of_a_server_of_ones_own_are_explained_where_its_code_may_run():
    run = play("server.kind=mylab:Hasty")
    with pytest.raises(InputError, match=r'server.kind: .*"mylab:Hasty".* --allow-import'):
        run.explain()
    told = run.explain(allow_import=True)
    assert told.round_s == run.rounds["round_s"].max()
    assert run.critical_path().length_s > 0
    with pytest.raises(InputError, match="cell.scheduler"):
        play("cell.scheduler=mylab:Halves").explain()

"""Renamed scenario keys: old spellings stay valid in every place, and digests do not change."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from netsim import InputError, Scenario, load_scenario
from netsim.scenario import toml_text
from netsim.scenario.aliases import ALIASES, as_stored, canonical, canonical_key
from netsim.scenario.loading import upgraded_text
from netsim.sweep.sweep_file import load_sweep

# recorded before the first key was renamed
DIGESTS = {
    "adaptive": "5827d274ac74c780d845a279424520f10eaf57b9e43b7387dd009859258e397b",
    "fedasync": "60261bb423a6cd7e30cb17239a91f02eca08c268417d5d929118b7d1964cd4c8",
    "fedbuff": "b18cc1b904831d317571d51812ddf57fc1a47bd3769fc352705958847a9bba36",
    "lab": "70ff3788c09fd2886be52b46858a86d4302c4671cd7321891a3eb8cb41076657",
    "mixed-fleet": "d01b7302154f9bd50dce0a38351c0ad3cb48011d2f372be43f9f959fb30e2655",
    "paper": "f3b4409afd92930446a6bbd2ad09d20ba2897b0ff06533a7e0692eae0fd573a6",
    "quickstart": "31756e4588e42f866822bfac7472ca805c1eb4bc16129991f4aa24798ed1bdb5",
    "storm": "c60490e1b05b818503ebc9fe53ec71c6ad0c792d465a492750c6c6eb62aa0f3a",
    "street": "0cdeeab78b3c22bbf1f55f3b6c3c002bb5db2f6ca2b8d239b575cb7f3fe778d2",
    "tdma": "4d247b15141fc1d16b15b8937693cd3f0b65816448725c6d7e91cf4fe2bbac66",
    "tiny": "01a2129f6c63d524fc25f1226323f7c667fd6b65f7c41d8ab5f2f69c0515bd22",
}
OLD: dict[str, Any] = {      # every old key and value
    "cell": {"radius": "300 m", "bandwidth": "5 MHz", "fading": "rayleigh",
             "rate": {"efficiency": 0.8, "cap": "5 bit/s/Hz"},
             "downlink": {"to": "each", "power": "1 W", "reception": "50 mW"}},
    "population": [{
        "name": "phone", "count": 4, "cpu": {"min": "0.2 GHz", "max": "2 GHz", "cycles_per_sample": 2e4},
        "radio": {"power": "20 dBm"}, "budget": "20 mJ", "battery": "1 J", "idle": "1 mW", "harvest": "2 mW",
        "loss": {"probability": 0.1, "tries": 2},
        "availability": {"model": "on-off", "on": "1 s", "off": "1 s", "work": "lose"},
        "crash": {"every": "5 s", "repair": "1 s", "work": "drop"},
        "mobility": {"model": "random-waypoint", "speed": "1 m/s", "every": "20 ms"},
        "throttle": {"after": "1 s", "to": "1 GHz", "recovers": "2 s"}}],
    "learning": {"bits": "448 kbit", "local_iterations": 5, "dataset": "digits", "model": "mnist-cnn",
                 "server": {"kind": "momentum"}},
    "selection": {"method": "fedavg", "cohort": 3}, "allocation": {"sharing": "equal", "channel": "now"},
    "rounds": {"infeasible": "waves", "first_infeasible": "relax", "over_budget": "go on", "wait": "2 s"},
}
OLD_DIGEST = "46e263ad81591a7889770b13f9a5c06677a6944d0d1e0846e8c57b4f33b9bf23"
SERVERS = [("fedbuff", "rate", "server_lr", 0.5), ("fedasync", "mixing", "alpha", 0.5),
           ("window", "stalest", "max_staleness", 3)]


def test_the_table_of_old_keys_has_every_alias() -> None:
    new, written = canonical(OLD)
    servers = {("server", new) for _, _, new, _ in SERVERS}
    assert {(key[0], *key[2:]) if key[0] == "population" else key for key in written} | servers == {
        alias.new for alias in ALIASES}
    assert canonical(new) == (new, {})
    assert as_stored(new) == OLD


@pytest.mark.parametrize("name", DIGESTS)
def test_digests_of_built_in_scenarios(name: str) -> None:
    scenario = load_scenario(name)
    new = tomllib.loads(scenario.to_toml())
    assert canonical(new) == (new, {})
    assert {scenario.digest, Scenario.of(new).digest, Scenario.of(as_stored(new)).digest} == {DIGESTS[name]}


def test_digest_of_every_old_key() -> None:
    new, _ = canonical(OLD)
    assert Scenario.of(OLD) == Scenario.of(new)
    assert Scenario.of(OLD).digest == Scenario.of(new).digest == OLD_DIGEST


@pytest.mark.parametrize(("kind", "old", "new", "value"), SERVERS)
def test_options_of_servers(kind: str, old: str, new: str, value: float) -> None:
    more = ["server.period=1s"] if kind == "window" else []
    set_old, set_new = (load_scenario("tiny", [f"server.kind={kind}", *more, f"server.{name}={value}"])
                        for name in (old, new))
    assert set_old.server == set_new.server
    assert set_old.digest == set_new.digest
    assert set_old.server is not None
    assert set_old.server.options[new] == value
    assert set_old.with_({f"server.{old}": value / 2}) == set_new.with_({f"server.{new}": value / 2})


def test_options_of_user_code_keep_their_names() -> None:
    own = load_scenario("tiny", {"server": {"kind": "mine:Server", "rate": 1, "mixing": 2, "stalest": 3}}).server
    assert own is not None
    assert own.options == {"rate": 1, "mixing": 2, "stalest": 3}
    link = load_scenario("tiny", {"cell.rate": {"model": "mine:Link", "cap": 2}}).cell.link
    assert link is not None
    assert dict(link) == {"model": "mine:Link", "cap": 2}


@pytest.mark.parametrize(("below", "above"), [
    ('[allocation]\nsharing = "tdma"', '[cell]\nscheduler = "equal"'),
    ('[cell]\nscheduler = "tdma"', '[allocation]\nsharing = "equal"'),
])
def test_a_base_file_and_the_file_above_it_may_differ(below: str, above: str, tmp_path: Path) -> None:
    (tmp_path / "below.toml").write_text(f'base = "tiny"\n{below}')
    (tmp_path / "above.toml").write_text(f'base = "below.toml"\n{above}')
    assert load_scenario(tmp_path / "above.toml").cell.scheduler == "equal"
    assert load_scenario(tmp_path / "above.toml", ["allocation.sharing=adaptive"]).cell.scheduler == "adaptive"
    assert load_scenario(tmp_path / "above.toml", {"cell.scheduler": "tdma"}).cell.scheduler == "tdma"


def test_another_allocation_method_resets_the_scheduler_as_before() -> None:
    adaptive = load_scenario("adaptive")
    assert adaptive.with_({"allocation.method": "equal"}).cell.scheduler is None
    assert adaptive.with_({"allocation.method": "equal", "cell.scheduler": "tdma"}).cell.scheduler == "tdma"
    assert load_scenario("adaptive", ["allocation.method=sao"]).cell.scheduler == "adaptive"


def test_axes_of_a_sweep(tmp_path: Path) -> None:
    text = 'scenario = "tiny"\nlearning = false\n[grid]\n{} = ["equal", "tdma"]\n'
    digests = []
    for key in ("allocation.sharing", "cell.scheduler"):
        (tmp_path / "axes.toml").write_text(text.format(key))
        digests.append([case.digest for case in load_sweep(tmp_path / "axes.toml").cases])
    assert digests[0] == digests[1]
    assert len(set(digests[0])) == 2


@pytest.mark.parametrize(("table", "old", "new"), [
    ({"allocation": {"sharing": "equal"}, "cell": {"scheduler": "equal"}}, "allocation.sharing", "cell.scheduler"),
    ({"cell": {"rate": {"cap": "1 bit/s/Hz"}, "link": {}}}, "cell.rate", "cell.link"),
    ({"population": [{"name": "node", "idle": "1 mW", "idle_power": "1 mW"}]}, "population.node.idle",
     "population.node.idle_power"),
])
def test_both_spellings_in_one_file(table: dict[str, Any], old: str, new: str) -> None:
    with pytest.raises(InputError, match="has another name now") as refused:
        Scenario.of({"base": "tiny", **table})
    assert old in str(refused.value)
    assert new in str(refused.value)


def test_both_spellings_on_the_command_line() -> None:
    with pytest.raises(InputError, match=r"rounds\.wait: has another name now \(found it and .*rounds\.retry_after"):
        load_scenario("tiny", ["rounds.wait=1s", "rounds.retry_after=2s"])


@pytest.mark.parametrize(("key", "near"), [
    ("learning.local_iteration", "local_epochs"), ("cell.sharing", "scheduler"), ("rounds.waits", "retry_after"),
    ("population.node.loss.tris", "max_attempts"), ("cell.downlink.receptoin", "receive_power")])
def test_an_unknown_key_suggests_the_new_spelling(key: str, near: str) -> None:
    with pytest.raises(InputError, match=f'Did you mean "{near}"'):
        load_scenario("tiny", {key: 1})


def test_an_error_names_the_key_as_it_was_written() -> None:
    for key in ("cell.rate.cap", "cell.link.max_spectral_efficiency"):
        with pytest.raises(InputError) as refused:
            load_scenario("tiny", {key: "0.01 bit/s/Hz"})
        assert refused.value.key == key
    assert canonical_key("cell.rate.model") == "cell.link.model"


COMMENTED = """
# a file of an earlier version
base = "tiny"      # sharing = "tdma" stays in comments
description = '''idle = "1 mW" in a text'''

[cell]
bandwidth = "5 MHz"      # B
rate.cap = "6 bit/s/Hz"

[[population]]      # the devices of tiny
name = "node"
battery = "5 J"
"idle" = "1 mW"      # drawn at all times
crash = { every = "9 s", repair = "1 s", work = "lose" }      # jobs restart
[population.availability]
model = "on-off"
on = "5 s"
off = "1 s"
work = 'drop'

[allocation]
sharing   =   "equal"      # equal shares
method = "sao"
"""


def upgrade(text: str, folder: Path) -> tuple[str, bool]:
    """Upgrade a file, and check that nothing but the spelling changes."""
    (folder / "old.toml").write_text(text)
    new, kept = upgraded_text(str(folder / "old.toml"))
    (folder / "new.toml").write_text(new)
    old, again = load_scenario(folder / "old.toml"), load_scenario(folder / "new.toml")
    assert (again.digest, again.cell, again.population) == (old.digest, old.cell, old.population)
    assert again.said.files[-1].written == {}
    assert upgraded_text(str(folder / "new.toml")) == (new, True)
    return new, kept


def test_an_upgraded_file_keeps_comments_and_layout(tmp_path: Path) -> None:
    new, kept = upgrade(COMMENTED, tmp_path)
    assert kept
    same = [line for line in COMMENTED.splitlines() if line in new.splitlines()]
    assert [line for line in COMMENTED.splitlines() if line not in same] == [
        'rate.cap = "6 bit/s/Hz"', '"idle" = "1 mW"      # drawn at all times',
        'crash = { every = "9 s", repair = "1 s", work = "lose" }      # jobs restart', "work = 'drop'",
        'sharing   =   "equal"      # equal shares']
    assert 'scheduler   =   "equal"      # equal shares\nlink.max_spectral_efficiency = "6 bit/s/Hz"\n' in new
    assert 'idle_power = "1 mW"      # drawn at all times' in new
    assert 'on_interrupt = "abort"' in new


def test_a_key_that_moves_makes_a_table_where_there_is_none(tmp_path: Path) -> None:
    new, kept = upgrade('base = "tiny"\n\n[allocation]\nmethod = "equal"\nsharing = "tdma"\n', tmp_path)
    assert kept
    assert new == 'base = "tiny"\n\n[cell]\nscheduler = "tdma"\n\n[allocation]\nmethod = "equal"\n'
    new, kept = upgrade('base = "tiny"\n[allocation]\nsharing = "tdma"\n', tmp_path)
    assert kept
    assert new == 'base = "tiny"\n[cell]\nscheduler = "tdma"\n'


def test_a_key_that_leaves_an_inline_table_costs_the_layout(tmp_path: Path) -> None:
    new, kept = upgrade('base = "tiny"\nallocation = { method = "equal", sharing = "tdma" } # plan\n', tmp_path)
    assert not kept
    assert tomllib.loads(new) == {"base": "tiny", "allocation": {"method": "equal"}, "cell": {"scheduler": "tdma"}}


def test_every_old_key_is_upgraded(tmp_path: Path) -> None:
    _, kept = upgrade(toml_text.dumps(OLD), tmp_path)
    assert kept
    for kind, old, _, value in SERVERS:
        period = '\nperiod = "1 s"' if kind == "window" else ""
        (tmp_path / "below.toml").write_text(f'base = "tiny"\n[server]\nkind = "{kind}"{period}\n')
        _, kept = upgrade(f'base = "below.toml"\n[server]\n{old} = {value}\n', tmp_path)
        assert kept


def test_check_prints_the_upgraded_file(netsim, tmp_path: Path) -> None:      # type: ignore[no-untyped-def]
    (tmp_path / "old.toml").write_text(COMMENTED)
    code, out, err = netsim("check", "--upgrade", tmp_path / "old.toml")
    assert (code, out, err) == (0, upgraded_text(str(tmp_path / "old.toml"))[0], "")
    code, out, _ = netsim("check", tmp_path / "old.toml")
    assert code == 0
    assert "keys in an old spelling" in out
    code, _, err = netsim("check", "--upgrade", tmp_path / "old.toml", "--set", "end.rounds=1")
    assert code == 2
    assert "--upgrade: contradicts another setting" in err


def test_the_upgrade_page_lists_every_renamed_key_and_value() -> None:
    page = (Path(__file__).parents[2] / "docs" / "upgrade.md").read_text(encoding="utf-8").partition("## Python")[0]
    rows = re.findall(r"^\| `([a-z_.]+)`(?: of `([a-z]+)`)? \| `([a-z_.]+)` \| (.*)\|$", page, re.MULTILINE)
    listed = {(tuple(old.split(".")), tuple(new.split("."))): dict(re.findall('`"([^"]+)"` to `"([^"]+)"`', values))
              for old, _, new, values in rows}
    assert listed == {(alias.old, alias.new): alias.values for alias in ALIASES}

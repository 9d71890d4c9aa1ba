"""Keys for something that netsim does not model are answered with the alternative, not with a similar key."""

from __future__ import annotations

from pathlib import Path

import pytest
from refused import refused

from netsim import load_scenario
from netsim.scenario.not_modelled import NOT_MODELLED, not_modelled

LIMITS = (Path(__file__).parents[2] / "docs" / "limits.md").read_text()


@pytest.mark.parametrize(("key", "what"), [
    ("cell.interference", "interference"), ("cell.resource_blocks", "resource blocks"), ("cells", "several cells"),
    ("population.phone.gpu", "accelerators"), ("population.phone.cpu.num_gpus", "accelerators"),
    ("cell.mimo", "antennas"), ("learning.dp-epsilon", "privacy"), ("cell.base_stations", "base stations")])
def test_a_wish_is_answered(key: str, what: str) -> None:
    with refused("unknown-key", key.split(".")[-1]) as caught:
        load_scenario("quickstart", {key: 2})
    assert what in caught.value.hint
    assert "docs/limits.md. Instead, " in caught.value.hint
    assert "Did you mean" not in str(caught.value)


def test_a_typing_error_gets_the_nearest_key() -> None:
    with refused("unknown-key", "bandwith") as caught:
        load_scenario("quickstart", {"cell.bandwith": "2 MHz"})
    assert 'Did you mean "bandwidth"?' in caught.value.hint
    assert all(not_modelled(key) is None for key in ("bandwith", "fadin", "cohorts", "roundz", "batery", "downlnk"))


def test_every_entry_is_on_the_page_of_limits() -> None:
    for words, *_ in NOT_MODELLED:
        told = [word for word in words.split() if word.replace("_", " ").rstrip("s") in LIMITS.lower()]
        assert told, words

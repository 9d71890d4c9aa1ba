"""README, CHANGELOG and the reports in results/ state what the stored tables say, and under which conditions."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from netsim import load_scenario, simulate

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted(RESULTS.rglob("README.md"))]
Row = dict[str, str]


def one_line(path: Path) -> str:
    return " ".join(path.read_text(encoding="utf-8").split())


def stored(target: str) -> list[Row]:
    with (RESULTS / target / "numbers.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def readme_item(word: str) -> str:
    """The item of README's list of measurements that holds a word."""
    measured = (ROOT / "README.md").read_text(encoding="utf-8").split("## What was measured")[1].split("\n## ")[0]
    [item] = [" ".join(item.split()) for item in re.split(r"\n- |\n\n", measured) if word in item]
    return item


def geometric_mean(values: Iterable[float]) -> float:
    return math.exp(sum(logs := [math.log(value) for value in values]) / len(logs))


def servers() -> dict[tuple[str, ...], dict[tuple[str, str], Row]]:
    """The rows of each trial of the asynchronous table, by spread of CPU speeds and method."""
    found: dict[tuple[str, ...], dict[tuple[str, str], Row]] = {}
    for row in stored("beyond/asynchronous"):
        trial = (row["dataset"], row["partition"], row["trial"])
        found.setdefault(trial, {})[row["cpu_spread"], row["method"]] = row
    return found


# Asynchronous servers.

def test_rows_that_replay_one_training_are_called_replays():
    learned = [[(row["updates"], row["best_accuracy"], row["target_reached"])
                for (_, method), row in trial.items() if method.startswith("synchronous ")]
               for trial in servers().values()]
    assert all(len(rows) == 4 and len(set(rows)) == 1 for rows in learned)
    item = readme_item("Asynchronous servers")
    assert re.search(r"synchronous `tdma` rows, and both synchronous rows of the cell with widely spread CPU speeds, "
                     r"replay one training", item)
    assert "One training stands for both allocations of synchronous rounds, in both cells" in one_line(
        RESULTS / "beyond" / "asynchronous" / "README.md")


@pytest.mark.parametrize(("column", "words"), [
    ("simulated_s", r"in ([\d.]+) to ([\d.]+) times the time of synchronous `tdma`"),
    ("energy_j", r"with ([\d.]+) to ([\d.]+) times its energy \(12 paired runs each\)")])
def test_the_time_and_energy_of_asynchronous_servers_are_those_of_the_table(column, words):
    trials = [trial for trial in servers().values() if ("paper", "fedbuff") in trial]
    ratios = sorted(geometric_mean(
        float(trial["paper", server][column]) / float(trial["paper", "synchronous tdma"][column]) for trial in trials)
        for server in ("fedbuff", "fedasync"))
    said = re.search(words, readme_item("Asynchronous servers"))
    assert said is not None
    assert len(trials) == 12
    assert [float(number) for number in said.groups()] == [
        round(ratio, len(number.partition(".")[2])) for ratio, number in zip(ratios, said.groups(), strict=True)]


# The band shared in time.

def test_budgets_under_adaptive_sharing_are_kept_as_stated_and_only_so():
    rows = stored("beyond/sharing")
    assert sum(int(row["over_budget"]) for row in rows if row["method"] == "adaptive") == 0
    kept = r"(broke|breaks?|exceed\w*) no (energy )?budget"
    promises = [(path.name, sentence) for path in PAGES for sentence in re.split(r"(?<=[.!?]) |[|]", one_line(path))
                if re.search(r"adaptive|end together", sentence, re.IGNORECASE) and re.search(kept, sentence)]
    assert promises
    for page, sentence in promises:
        assert re.search(r"`?sao`?'s CPU clocks|clocks of sao|CPUs of sao", sentence), f"{page}: {sentence}"
        assert re.search(r"(do not|nothing) changes? in time", sentence), f"{page}: {sentence}"


@pytest.mark.slow
def test_adaptive_sharing_exceeds_budgets_where_the_channel_changes():
    """The condition in README's sentence is needed."""
    jobs = simulate(load_scenario("paper", [
        "rounds.first=cohort", "selection.method=fedavg", "end.rounds=10", "allocation.method=sao",
        "allocation.sharing=adaptive", 'cell.fading={model="rayleigh",coherence="200 ms"}']), seed=2,
        learning=False).jobs
    assert (jobs["energy_j"] > 1.01 * jobs["budget_j"]).any()


def test_what_tdma_gains_is_that_of_the_table():
    summary = json.loads((RESULTS / "beyond/sharing/numbers.json").read_text())["summary"]["paper"]["tdma"]
    said = re.search(r"`tdma`\) makes rounds ([\d.]+) times as long .* with ([\d.]+) times the energy",
                     readme_item("Sending one after the other"))
    assert said is not None
    assert float(said[1]) == round(summary["round_over_sao"]["median"], 3)
    assert float(said[2]) == round(summary["energy_over_sao"]["median"], 2)


@pytest.mark.parametrize(("method", "digits", "words"), [
    ("equal", 2, r"equal bands make a round ([\d.]+) to ([\d.]+) times as long as `sao`"),
    ("tdma", 2, r"`tdma` is longer than `sao` \(([\d.]+) to ([\d.]+) times\)")])
def test_rounds_of_measured_phones_are_those_of_the_table(method, digits, words):
    summary = json.loads((RESULTS / "beyond/real-devices/numbers.json").read_text())["summary"]
    medians = [round(found[method]["round_over_sao"]["median"], digits)
               for network, found in summary.items() if network != "paper"]
    said = re.search(words, readme_item("measured phones"))
    assert said is not None
    assert [float(number) for number in said.groups()] == [min(medians), max(medians)]


# Theorem 1 of the paper: equal ends, spent budgets, the whole band; and larger cohorts.

def shares(part: str, whole: str) -> list[float]:
    """Percent of the devices, at each budget, in the order of the table."""
    rows = stored("paper/theorem1")
    budgets = list(dict.fromkeys(row["budget_mj"] for row in rows))
    return [100 * sum(int(row[part]) for row in rows if row["budget_mj"] == budget)
            / sum(int(row[whole]) for row in rows if row["budget_mj"] == budget) for budget in budgets]


def findings(target: str) -> dict[str, dict[str, str]]:
    return {found["paper"]: found for found in json.loads((RESULTS / target / "numbers.json").read_text())["findings"]}


@pytest.mark.parametrize(("part", "statement"), [
    ("ends", "(Theorem 1) at the optimum all devices end at the same time"),
    ("spent", "(Theorem 1) and each spends its whole budget")])
def test_the_verdict_on_theorem_1_follows_from_the_stored_plans(part, statement):
    found = findings("paper/theorem1")[statement]
    everybody, inside = shares(part, "devices"), shares(f"free_{part}", "free")
    assert re.findall(r"([\d.]+) % of", found["measured"]) == [
        f"{value:.1f}" for pair in zip(everybody, inside, strict=True) for value in pair]
    assert found["verdict"] == ("agrees" if min(everybody) == 100 else "agrees in part")
    assert inside == [100.0] * len(inside)              # inside the CPU's range the theorem holds without exception
    assert found["measured"] in one_line(RESULTS / "paper/theorem1/README.md")


def test_the_changelog_states_the_share_of_devices_that_spend_their_budget():
    said = re.search(r"budgets are spent only by devices below their fastest clock \(([\d.]+) % of all at 50 mJ\)",
                     one_line(ROOT / "CHANGELOG.md"))
    assert said is not None
    assert said[1] == f"{shares('spent', 'devices')[-1]:.1f}"


def test_the_whole_band_is_in_use_and_larger_cohorts_take_longer_and_more():
    assert all(abs(float(row["band"]) - 1) < 1e-9 for row in stored("paper/theorem1"))
    found = findings("paper/theorem1")["a larger S gives each round a higher energy E_k and delay T_k"]
    delays = [float(value) for value in re.findall(r"S = \d+: ([\d.]+) ms", found["measured"])]
    energies = [float(value) for value in re.findall(r", ([\d.]+) J", found["measured"])]
    assert (found["verdict"], len(delays)) == ("agrees", 5)
    assert delays == sorted(set(delays))
    assert energies == sorted(set(energies))


def test_the_running_time_of_algorithm_5_is_assessed_by_the_measured_exponent():
    data = json.loads((RESULTS / "paper/theorem1/numbers.json").read_text())
    seconds = {int(size): value for size, value in data["summary"]["seconds_by_size"].items()}
    small, large = min(seconds), max(seconds)
    exponent = math.log(seconds[large] / seconds[small]) / math.log(large / small)
    found = findings("paper/theorem1")["Algorithm 5 takes time in proportion to S squared"]
    said = re.search(r"to the power of ([\d.]+)", found["measured"])
    assert said is not None
    assert float(said[1]) == pytest.approx(exponent, abs=0.1)       # fitted over all sizes
    assert found["verdict"] == ("differs" if exponent < 1.5 else "agrees")

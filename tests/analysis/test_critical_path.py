from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused
from small_runs import sign, store

from netsim.run import Run
from netsim.trace.recorder import Recorder
from netsim.trace.schema import SERVER

Play = Callable[[Recorder], None]


def test_the_path_runs_through_the_last_device_of_each_round(two: Run) -> None:
    steps = two.critical_path().steps
    assert list(zip(steps["name"], steps["device"], strict=True)) == [
        ("select", -1), ("allocate", -1), ("compute", 0), ("upload", 0), ("aggregate", -1),
        ("select", -1), ("allocate", -1), ("compute", 1), ("upload", 1), ("aggregate", -1)]
    assert two.critical_path().length_s == 11.0


def test_what_would_shorten_the_run(two: Run) -> None:
    # round 1: device 0's upload takes 4 s, but device 1 ends only 3 s earlier; round 2 likewise with device 1
    causes = {(row["device"], row["part"]): row for row in two.critical_path().causes.iter_rows(named=True)}
    assert causes[0, "upload"]["seconds"] == 4.0
    assert causes[0, "upload"]["gain_s"] == 3.0
    assert causes[0, "compute"]["gain_s"] == 2.0
    assert causes[1, "upload"]["share_of_rounds"] == 0.5
    assert causes[1, "upload"]["share_of_time"] == pytest.approx(3 / 11)
    assert "phone 0's upload is on it in 50% of the rounds" in two.critical_path().advice()[0]
    assert sum(row["seconds"] for row in causes.values()) == 11.0


def test_slack_is_how_much_slower_a_device_could_have_been(two: Run) -> None:
    slack = two.critical_path().slack
    assert slack.select("device", "least_s", "mean_s", "critical_rounds").rows() == [(0, 0.0, 1.5, 1), (1, 0.0, 1.5, 1)]
    assert two.critical_path().together == 0.0


def test_slack_of_a_wave_ends_where_the_next_begins(record: Callable[[Play], Run]) -> None:
    def play(recorder: Recorder) -> None:
        select = recorder.instant("select", SERVER, 0.0, value=3)
        first = recorder.instant("allocate", SERVER, 0.0, value=2, after=[select])
        quick = recorder.span("compute", 0, 0.0, 1.0, after=[first])
        slow = recorder.span("compute", 1, 0.0, 3.0, after=[first])
        second = recorder.instant("allocate", SERVER, 3.0, value=1, after=[quick, slow])
        last = recorder.span("compute", 2, 3.0, 4.0, after=[second])
        recorder.span("aggregate", SERVER, 4.0, 4.0, value=3, after=[last])
        recorder.span("round", SERVER, 0.0, 4.0, value=3)

    path = record(play).critical_path()
    assert dict(path.slack.select("device", "least_s").iter_rows()) == {0: 2.0, 1: 0.0, 2: 0.0}
    gains = dict(path.causes.select("device", "gain_s").iter_rows())
    assert gains == {1: 2.0, 2: 1.0}          # without device 1, device 0 sets the wave's pace; device 2 is alone


def test_a_chain_with_a_gap_is_not_the_critical_path(record: Callable[[Play], Run]) -> None:
    """Device 0 waits for room in the band until the deadline cuts it; what held it up is device 1's upload."""
    def play(recorder: Recorder) -> None:
        allocate = recorder.instant("allocate", SERVER, 0.0, value=2)
        compute_0 = recorder.span("compute", 0, 0.0, 1.0, after=[allocate])
        compute_1 = recorder.span("compute", 1, 0.0, 0.5, after=[allocate])
        recorder.span("wait", 0, 1.0, 5.0)
        cut_0 = recorder.instant("deadline", 0, 5.0, after=[compute_0])
        upload_1 = recorder.span("upload", 1, 0.5, 5.0, after=[compute_1])
        cut_1 = recorder.instant("deadline", 1, 5.0, after=[upload_1])
        recorder.span("aggregate", SERVER, 5.0, 5.0, after=[cut_0, cut_1])
        recorder.span("round", SERVER, 0.0, 5.0)

    path = record(play).critical_path()
    assert path.steps["name"].to_list() == ["allocate", "compute", "upload", "deadline", "aggregate"]
    assert path.length_s == 5.0


durations = st.floats(1e-4, 1e3)
cohorts = st.lists(st.tuples(durations, durations), min_size=1, max_size=3)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(cohorts, min_size=1, max_size=5))
def test_the_path_is_gapless_as_long_as_the_run_and_the_longest(rounds: list[list[tuple[float, float]]]) -> None:
    recorder, now, last = Recorder(), 0.0, []
    for cohort in rounds:
        began = now
        allocate = recorder.instant("allocate", SERVER, now, after=last)
        ends = []
        for device, (compute_s, upload_s) in enumerate(cohort):
            computed = began + compute_s
            row = recorder.span("compute", device, began, computed, after=[allocate])
            sent = computed + upload_s
            ends.append((sent, recorder.span("upload", device, computed, sent, after=[row])))
        now = max(ends)[0]
        last = [recorder.span("aggregate", SERVER, now, now, after=[row for _, row in ends])]
        recorder.span("round", SERVER, began, now)
    with tempfile.TemporaryDirectory() as folder:
        run = store(Path(folder) / "run", (1, recorder.take()), rounds=len(rounds))
        path = run.critical_path()
        assert path.length_s == run.breakdown().totals["makespan_s"] == now
        assert path.steps["t0"].to_list()[1:] == path.steps["t1"].to_list()[:-1]
        graph = run.graph()
        assert all(graph.has_edge(*pair) for pair in zip(path.steps["seq"], path.steps["seq"][1:], strict=False))
        assert nx.dag_longest_path_length(graph) == pytest.approx(path.length_s, rel=1e-12)


def test_the_graph_of_a_round_is_as_long_as_the_round(two: Run) -> None:
    assert nx.dag_longest_path_length(two.graph(round=2)) == 5.0
    assert nx.dag_longest_path_length(two.graph()) == 11.0
    with refused("out-of-range", "round"):
        two.graph(round=3)


def test_links_that_do_not_fit_are_refused(two: Run) -> None:
    file = two.path / "links" / "part-00002.parquet"
    pl.DataFrame({"src": [5], "dst": [4]}).write_parquet(file)
    sign(two.path)
    with refused("damaged", "links"):
        Run(two.path).critical_path()
    pl.DataFrame({"src": [0], "dst": [1]}).write_parquet(file)
    sign(two.path)
    with refused("damaged", "links"):
        Run(two.path).critical_path()

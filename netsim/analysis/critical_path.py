"""Critical path: the chain of causes that determines the length of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from netsim.analysis.breakdown import TOGETHER, WORK
from netsim.analysis.device_names import all_names
from netsim.base import html, units
from netsim.base.errors import InputError
from netsim.base.frames import in_order
from netsim.base.pluralize import pluralize
from netsim.base.types import Floats, Ints
from netsim.run import Run

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """The longest chain of trace rows in which each row begins when the one before it ends.

    ``steps``    the chain: seq, round, name, device, device_name, t0, t1, length_s
    ``causes``   parts of the chain: device, device_name, part, rounds, share_of_rounds, seconds, share_of_time;
                 gain_s: upper bound of the saving if this part took no time and the plan stayed
                 as it is, since then another device would be the last
    ``slack``    per device that took part: device, name, rounds, critical_rounds, least_s, mean_s: how much longer
                 its work could have taken without making a round longer
    ``together`` share of the rounds in which another device ended within a thousandth of the round's time of the
                 last; ``run.explain()`` finds the limits of these rounds
    """

    steps: pl.DataFrame
    causes: pl.DataFrame
    slack: pl.DataFrame
    together: float

    def _repr_html_(self) -> str:
        columns = [name for name in ("device_name", "part", "rounds", "seconds", "share_of_time", "gain_s")
                   if name in self.causes.columns]
        shown = self.causes.select(columns).rename({"seconds": "length_s"})
        return html.table(f"what set the length of {html.cell('length_s', self.length_s)}", shown.columns, shown.rows())

    @property
    def start_s(self) -> float:
        return float(self.steps["t0"][0])

    @property
    def end_s(self) -> float:
        return float(self.steps["t1"][-1])

    @property
    def length_s(self) -> float:
        """The makespan: the steps abut, so their lengths telescope to this difference, without rounding."""
        return self.end_s - self.start_s

    def advice(self) -> list[str]:
        """Return sentences on the critical path and on what would shorten the run."""
        said = []
        if not self.causes.is_empty():
            top = self.causes.row(0, named=True)
            said.append(f"{top['device_name']}'s {_noun(top['part'])} is on it in {top['share_of_rounds']:.0%} of the "
                        f"rounds, {top['share_of_time']:.0%} of the time.")
            best = self.causes.sort("gain_s", descending=True, maintain_order=True).row(0, named=True)
            if best["gain_s"] > TOGETHER * self.length_s:
                gain = f"{units.duration(best['gain_s'], 3)} ({best['gain_s'] / self.length_s:.1%})"
                what = f"{best['device_name']}'s {_noun(best['part'])}"
                said.append(f"What helps most: {what}; without it the run would be up to {gain} shorter.")
        if self.together > 0:
            said.append(f"In {self.together:.0%} of the rounds several devices end together; `netsim explain` plans "
                        "them again, and says what holds them up.")
        return said

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``netsim critical-path --json`` prints."""
        return {"length_s": self.length_s, "start_s": self.start_s, "end_s": self.end_s, "together": self.together,
                "causes": self.causes.to_dicts(), "slack": self.slack.to_dicts(), "steps": self.steps.to_dicts()}


def find_critical_path(run: Run, round: int | None = None) -> CriticalPath:
    """Return the critical path of a run, or of one round: the work that its aggregation waited for.

    A link says that a row could not begin before another had ended. It is tight when the row did begin
    at that very instant. No chain can be longer than the time between its ends, so every chain
    of tight links from the start of the run to its end is a longest path, and its length is the makespan.
    """
    if not run.last_round:
        raise InputError("empty", str(run.path), hint="No round is complete yet, so there is nothing to show")
    rows = _rows(run)
    t0, t1 = rows["t0"].to_numpy(), rows["t1"].to_numpy()
    (src, dst), acts = _links(run, len(t0)), rows.filter(pl.col("kind") != "counter")
    ends = acts.filter(pl.col("name") == "aggregate")
    names = all_names(run.devices).rename({"name": "device_name"})
    if ends.is_empty():
        raise InputError("damaged", str(run.path / "trace"), "no end of a round")
    if round is not None and not (ends["round"] == round).any():
        raise InputError("out-of-range", "round", str(round), f"1 to {run.last_round}")
    tight, last = t0[dst] == t1[src], ends if round is None else ends.filter(pl.col("round") == round)
    chain = _chain(src[tight], dst[tight], t0, first=float(acts["t0"].to_numpy().min()), sink=int(last["seq"][-1]))
    if chain is None:
        raise InputError("damaged", str(run.path / "links"), "links that do not lead from the run's start to its end")
    steps = (
        pl.DataFrame({"seq": chain}).join(acts, on="seq", maintain_order="left").join(names, on="device", how="left")
        .sort("seq").select("seq", "round", "name", "device", "device_name", "t0", "t1", "length_s")
    )
    worked = _worked(run, acts, _slack(src, dst, t0, t1, acts))
    if round is not None:
        steps, worked, ends = (frame.filter(pl.col("round") == round) for frame in (steps, worked, ends))
    return CriticalPath(steps, _causes(steps, worked, len(ends)), _by_device(steps, worked, names),
                        _together(run, worked, len(ends)))


def _links(run: Run, rows: int) -> tuple[Ints, Ints]:
    """Return the links as arrays, after a check that they end within the rows of the trace."""
    src, dst = run.links["src"].to_numpy(), run.links["dst"].to_numpy()      # src < dst, as a run has checked
    if len(dst) and dst.max() >= rows:
        raise InputError("damaged", str(run.path / "links"), f"links beyond the trace's {pluralize(rows, 'row')}")
    return src, dst


def _rows(run: Run) -> pl.DataFrame:
    """Return the rows of the trace: seq, round, kind, name, device, t0, t1, length_s."""
    return run.collect(run.scan().select(
        "seq", "round", "kind", "name", "device", "t0", "t1", length_s=pl.col("t1") - pl.col("t0")))


def _noun(part: str) -> str:
    return {"off": "absence", "throttled": "throttled computing"}.get(part, part)


def causal_graph(run: Run, round: int | None = None) -> nx.DiGraph:
    """Return the links of a run, or of one round, as a networkx graph.

    Nodes are rows of the trace (by ``seq``) with round, name, device, t0 and t1; the weight of an edge
    is the length in seconds of the row that it leads to.
    """
    import networkx as nx

    acts = _rows(run).filter(pl.col("kind") != "counter").drop("kind")
    if round is not None:
        acts = acts.filter(pl.col("round") == round)
        if acts.is_empty():
            raise InputError("out-of-range", "round", str(round), f"1 to {run.last_round}")
    links = run.links.join(acts.select("seq"), left_on="src", right_on="seq").join(
        acts.select("seq", weight="length_s"), left_on="dst", right_on="seq")
    graph = nx.DiGraph()
    graph.add_nodes_from((row.pop("seq"), row) for row in acts.drop("length_s").iter_rows(named=True))
    graph.add_weighted_edges_from(links.iter_rows())
    return graph


def _chain(src: Ints, dst: Ints, t0: Floats, first: float, sink: int) -> list[int] | None:
    """Return a chain of tight links from a row that begins at ``first`` to ``sink``; None if there is none.

    Of the tight links into a row any will do whose cause itself hangs on the start; the first is taken. That is
    networkx's longest path over ``causal_graph`` in one pass over the links, which a million spans need.
    """
    order = np.argsort(dst, kind="stable")          # causes before effects
    parent: list[int | None] = [None] * len(t0)
    has_cause = np.zeros(len(t0), bool)
    has_cause[dst] = True
    for root in np.flatnonzero((t0 == first) & ~has_cause).tolist():
        parent[root] = root
    for cause, row in zip(src[order].tolist(), dst[order].tolist(), strict=True):
        if parent[row] is None and parent[cause] is not None:
            parent[row] = cause
    chain, above = [sink], parent[sink]
    while above is not None and above != chain[-1]:
        chain.append(above)
        above = parent[above]
    return None if above is None else chain[::-1]


def _slack(src: Ints, dst: Ints, t0: Floats, t1: Floats, acts: pl.DataFrame) -> Floats:
    """Return by how many seconds each row could end later without lengthening its round.

    Rounds hang together by their aggregations only, so each aggregation is where the slack of a round is counted from;
    devices that start after it are no part of the round.
    """
    ends, starts = (acts.filter(pl.col("name") == name)["seq"].to_numpy() for name in ("aggregate", "select"))
    within = ~np.isin(dst, starts)
    src, dst = src[within], dst[within]
    slack = np.full(len(t0), np.inf)
    slack[ends] = 0.0
    order = np.argsort(-dst, kind="stable")      # a row's own slack is known before it is handed on
    gaps = (t0[dst] - t1[src])[order].tolist()
    left = slack.tolist()
    for cause, row, gap in zip(src[order].tolist(), dst[order].tolist(), gaps, strict=True):
        if left[row] + gap < left[cause]:
            left[cause] = left[row] + gap
    return np.array(left)


def _worked(run: Run, acts: pl.DataFrame, slack: Floats) -> pl.DataFrame:
    """Return a row per device and round: round, device, wave (the row that allocated it), slack_s.

    Work that nothing waited for, since the run ended before it did, is left out. Where jobs extend over several rounds,
    all work of a round is one wave: it went on side by side.
    """
    work = acts.filter(pl.col("name").is_in(WORK))
    work = work.with_columns(slack_s=slack[work["seq"].to_numpy()]).filter(pl.col("slack_s").is_finite())
    allocated = run.links.join(acts.filter(pl.col("name") == "allocate").select("seq"), left_on="src", right_on="seq")
    waves = work.join(allocated, left_on="seq", right_on="dst").select("round", "device", wave="src")
    worked = work.group_by("round", "device", maintain_order=True).agg(pl.col("slack_s").min()).join(
        waves.unique(["round", "device"], keep="last", maintain_order=True), on=["round", "device"],
        maintain_order="left")
    return worked if run.in_rounds else worked.with_columns(wave=pl.col("round").cast(pl.Int64))


def _causes(steps: pl.DataFrame, worked: pl.DataFrame, rounds: int) -> pl.DataFrame:
    """Return the parts of the chain, the longest first."""
    work = steps.filter(pl.col("name").is_in((*WORK, "off"))).join(worked, on=["round", "device"], how="left")
    beside = worked.join(work, on=["round", "device"], how="anti").group_by("wave").agg(
        pl.col("slack_s").min().alias("next_s"))
    gain = pl.min_horizontal("length_s", pl.col("next_s").fill_null(float("inf")))
    whole = float(steps["t1"][-1]) - float(steps["t0"][0])
    return (
        work.join(beside, on="wave", how="left", maintain_order="left").with_columns(gain_s=gain)
        .group_by("device", "device_name", part="name", maintain_order=True)
        .agg(pl.col("round").n_unique().cast(pl.Int64).alias("rounds"), in_order(pl.col("length_s")).alias("seconds"),
             in_order(pl.col("gain_s")))
        .with_columns(share_of_rounds=pl.col("rounds") / rounds, share_of_time=pl.col("seconds") / (whole or 1.0))
        .sort(["seconds", "device", "part"], descending=[True, False, False])
        .select("device", "device_name", "part", "rounds", "share_of_rounds", "seconds", "share_of_time", "gain_s")
    )


def _by_device(steps: pl.DataFrame, worked: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    critical = steps.filter(pl.col("name").is_in(WORK)).select("round", "device", critical=1).unique()
    return (
        worked.join(critical, on=["round", "device"], how="left", maintain_order="left")
        .group_by("device", maintain_order=True).agg(
            pl.len().cast(pl.Int64).alias("rounds"), pl.col("critical").sum().cast(pl.Int64).alias("critical_rounds"),
            pl.col("slack_s").min().alias("least_s"), (in_order(pl.col("slack_s")) / pl.len()).alias("mean_s"))
        .join(names, on="device", how="left")
        .sort("mean_s", "device")
        .select("device", pl.col("device_name").alias("name"), "rounds", "critical_rounds", "least_s", "mean_s")
    )


def _together(run: Run, worked: pl.DataFrame, rounds: int) -> float:
    near = pl.col("slack_s") <= TOGETHER * pl.col("round_s")
    waves = worked.join(run.rounds.select("round", "round_s"), on="round").group_by("round", "wave").agg(
        (near.sum() >= 2).alias("together"))
    return float(waves.group_by("round").agg(pl.col("together").all())["together"].sum() / rounds)

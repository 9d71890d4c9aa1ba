"""Export of a run as Chrome trace JSON, for ui.perfetto.dev and chrome://tracing.

A process a device, with a slice for each round that it took part in and its compute, upload and wait inside, which
tell band, clock, rate, gain and energy when they are pointed at; the server's rounds and aggregations, with an arrow
from each upload that arrived; counters for batteries, the band in use, accuracy and loss. Times are whole
microseconds, and a slice is as long as the rounded times are apart: with fractions, slices that abut would overlap by a
rounding error, and the viewer would drop them without a word.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO, Any

import polars as pl

from netsim.analysis.device_names import all_names
from netsim.analysis.export import FACTS, each_part, job_annotations
from netsim.base.errors import InputError
from netsim.run import Run
from netsim.trace.schema import CELL, SERVER, UNDELIVERED

# units of counters
UNITS = {"battery": "J", "bandwidth": "Hz", "harvest": "J", "idle": "J", "spilt": "J"}
FIRST = 10                                      # process of device 0; 0 would be the viewer's own
PIDS = {CELL: 1, SERVER: 2}
STEPS = 3                                       # the server's steps have a track of their own: they take no time, and
TS, DUR = pl.col("ts"), pl.col("dur")           # an aggregation would be drawn inside the round that it makes way for
PID, TID = pl.col("pid"), pl.col("tid")
LONGEST_S = 9e12                                # whole microseconds of it fit 64 bits


def write_perfetto(run: Run, file: IO[bytes]) -> None:
    """Write a run as Chrome trace JSON, part by part: a large run needs the memory of one part, and of its jobs."""
    last_s = run.collect(run.scan().select(pl.max_horizontal(pl.col("t0", "t1").abs()).max())).item() or 0.0
    if last_s > LONGEST_S:
        raise InputError("too-large", str(run.path), f"{last_s:g} s", f"at most {LONGEST_S:g} s",
                         "Perfetto counts microseconds in 64 bits; export csv or parquet")
    names = all_names(run.devices)
    facts = job_annotations(run)
    took_part: set[int] = {SERVER, CELL}
    file.write(b'{"displayTimeUnit":"ms","otherData":{"run":')
    file.write(json.dumps(run.title).encode())
    file.write(b'},"traceEvents":[\n')
    for rows, _ in each_part(run):
        took_part.update(rows["device"].unique().to_list())
        slices = rows.join(facts, on="job", how="left", maintain_order="left")
        file.write(_events(slices, in_rounds=run.in_rounds).str.join("").item().encode())
    metadata = [event for device, name in names.filter(pl.col("device").is_in(sorted(took_part))).iter_rows()
                for event in _metadata(device, name)]
    file.write(",\n".join(metadata).encode())
    file.write(b"\n]}\n")


def _metadata(device: int, name: str) -> Iterator[str]:
    """Yield the metadata events that name and sort a process and its tracks."""
    pid = PIDS.get(device, FIRST + device)

    def event(kind: str, tid: int = pid, **args: Any) -> str:
        return json.dumps({"ph": "M", "pid": pid, "tid": tid, "name": kind, "args": args})

    yield event("process_name", name=name)
    yield event("process_sort_index", sort_index=pid)
    if device == SERVER:
        yield event("thread_name", name="rounds")
        yield event("thread_name", STEPS, name="select, allocate, aggregate")
    elif device >= 0:
        yield event("thread_name", name="CPU and radio")


def _events(rows: pl.DataFrame, *, in_rounds: bool) -> pl.Series:
    """Return the events of some rounds, a line each, sorted by time; of simultaneous events the outermost first."""
    rows = _placed(rows)
    kind, name, whole = pl.col("kind"), pl.col("name"), pl.col("value").cast(pl.Int64)
    span = '{"ph":"X","pid":?,"tid":?,"ts":?,"dur":?,"name":?,"args":{"round":?,"?":??}},\n'
    frames = [
        _lines(_round_slices(rows, in_rounds=in_rounds), 0, _fill(
            span, PID, TID, TS, DUR, _fill('"round ?"', "round"), "round", pl.lit("arrived"), whole, pl.lit(""))),
        _lines(rows.filter((kind == "span") & (name != "round")), 1, _fill(
            span, PID, TID, TS, DUR, "label", "round", pl.lit("energy_j"), "energy_j", _job_arguments())),
        _lines(rows.filter(kind == "instant"), 2, _fill(
            '{"ph":"i","s":"t","pid":?,"tid":?,"ts":?,"name":?,"args":{"round":?,"devices":?}},\n',
            PID, TID, TS, "label", "round", whole)),
        *_arrows(rows),
        _lines(rows.filter((kind == "counter") & pl.col("value").is_finite()), 4, _fill(
            '{"ph":"C","pid":?,"ts":?,"name":?,"args":{"?":?}},\n',
            PID, TS, "label", name.replace_strict(UNITS, default="value"), "value")),
    ]
    return pl.concat(frames).sort("round", "ts", "order", "seq", "pid")["line"]


def _placed(rows: pl.DataFrame) -> pl.DataFrame:
    """Add the times in microseconds, the quoted name, and the process and track of each row."""
    quoted = {name: json.dumps(name) for name in rows["name"].unique()}
    pid = pl.col("device").replace_strict(PIDS, default=pl.col("device") + FIRST)
    step = (pl.col("device") == SERVER) & (pl.col("name") != "round")
    return rows.with_columns(
        ts=_us("t0"), dur=_us("t1") - _us("t0"), label=pl.col("name").replace_strict(quoted), pid=pid,
        tid=pl.when(step).then(STEPS).otherwise(pid))


def _job_arguments() -> pl.Expr:
    """Return the job and its FACTS as further arguments of a slice; empty for slices without a job."""
    known = [pl.format(f',"{name}":{{}}', pl.col(name)) for name in FACTS]
    arguments = pl.concat_str(pl.format(',"job":{}', pl.col("job")), *known, ignore_nulls=True)
    return pl.when(pl.col("outcome").is_not_null()).then(arguments).otherwise(pl.lit(""))


def _fill(template: str, *values: pl.Expr | str) -> pl.Expr:
    """Replace each question mark of a template by a value of the row."""
    first, *texts = template.split("?")
    columns = (pl.col(value) if isinstance(value, str) else value for value in values)
    return pl.concat_str(pl.lit(first), *(
        piece for column, text in zip(columns, texts, strict=True) for piece in (column.cast(pl.String), pl.lit(text))))


def _us(time: str) -> pl.Expr:
    return (pl.col(time) * 1e6).round().cast(pl.Int64)


def _lines(rows: pl.DataFrame, order: int, line: pl.Expr) -> pl.DataFrame:
    return rows.select("round", "ts", pl.lit(order).alias("order"), "seq", "pid", line.alias("line"))


def _round_slices(rows: pl.DataFrame, *, in_rounds: bool) -> pl.DataFrame:
    """Return the server's rounds, and a copy of each for every device that took part.

    Where jobs reach from one round into the next, a device has none: slices that overlap are not drawn.
    """
    rounds = rows.filter((pl.col("kind") == "span") & (pl.col("name") == "round"))
    if not in_rounds:
        return rounds
    players = rows.filter((pl.col("kind") == "span") & (pl.col("device") >= 0)).unique(["round", "device"])
    theirs = players.select("round", "device", "pid", "tid").join(rounds.drop("device", "pid", "tid"), on="round")
    return pl.concat([rounds, theirs.select(rounds.columns)])


def _arrows(rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield the arrows from each upload that arrived to its aggregation; the id is the row of the upload."""
    span, name = pl.col("kind") == "span", pl.col("name")
    undelivered = rows.filter((pl.col("kind") == "instant") & name.is_in(UNDELIVERED)).select("round", "device", "job")
    uploads = rows.filter(span & (name == "upload")).join(undelivered, on=["round", "device", "job"], how="anti")
    uploads = uploads.unique(["round", "device", "job"], keep="last", maintain_order=True)     # the one that arrived
    # inside the slice: at its end, the viewer may take the next one for its start
    tails = uploads.with_columns(ts=pl.max_horizontal(TS, TS + DUR - 1))
    heads = rows.filter(span & (name == "aggregate")).drop("seq").join(uploads.select("round", "seq"), on="round")
    flow = '{"ph":"?","id":?,"pid":?,"tid":?,"ts":?,"cat":"model","name":"model"?},\n'
    yield _lines(tails, 3, _fill(flow, pl.lit("s"), "seq", PID, TID, TS, pl.lit("")))
    yield _lines(heads, 3, _fill(flow, pl.lit("f"), "seq", PID, TID, TS, pl.lit(',"bp":"e"')))

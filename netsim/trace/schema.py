"""What a trace says: rows for what happened, links for what caused what, jobs for what was decided and what came of it.

Columns of a row
    seq        number of the row; a cause has a smaller one than what it caused
    round      the aggregation that the row led to, from 1: one more than the spans "round" before it
    kind       "span" (t0 to t1), "instant" (t0 = t1) or "counter" (``value`` holds from t0 on)
    name       spans: download, compute, throttled (computing at a lower clock than planned, since the device is hot),
               upload, wait, off (a device that is away in mid-job), aggregate, round; instants: select, relax,
               allocate and the reasons why a job did not arrive; counters: battery (J), bandwidth (Hz), accuracy,
               loss, cluster (of the device), packets (that an upload came to), and since the run began harvest (J
               that came into a battery), idle (J drawn from it at rest) and spilt (J that came in when it was full);
               these and battery, with CELL as the device, are sums over all devices at each aggregation; of a Flower
               app, its metrics: train NAME, evaluate NAME, server NAME, initial NAME
    device     number of the device; SERVER or CELL where it is none
    job        number of the job that the row is about; -1 where it is about none
    t0, t1     simulated seconds
    value      what a counter counts; by what factor all budgets are raised ("relax"); how many devices another instant
               or a round span is about
    energy_j   what a span took from the device's battery

A link ``src -> dst`` says that row ``dst`` could not begin before row ``src`` had ended.

Columns of a job
    job        number of the job
    round      the aggregation that it was for, from 1
    version    of the model that it started from: the aggregations before it began
    device     who did it
    t0, t1     when it was dispatched, and when it ended
    gain       of the channel, as the plan saw it
    bits, cycles             its work
    budget_j                 what it was allowed to spend: its budget, times what "relax" says, or what was left in its
                             battery if that is less; without what receiving the model takes
    cpu_hz, power_w          what the plan gave it; NaN where there was no plan
    bandwidth_hz             the same: the planned mean
    planned_s                how long the plan meant it to take, from the start of computing
    compute_s, upload_s, energy_j    what it really took, with all that was lost and done again; energy_j has receiving
                             the model in it, whose time is that of its spans "download"
    wait_s     the time in which it waited for the band, or its device was off
    outcome    "arrived", or the reason why it did not
    staleness  aggregations between its start and its end

No column holds wall-clock time, so equal runs leave equal bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

SERVER = -1
CELL = -2

ARRIVED = "arrived"
BATTERY_EMPTY = "battery empty"
DEADLINE = "deadline"
INFEASIBLE = "infeasible"
OVER_BUDGET = "over budget"
RELAX = "relax"
OFF = "went off"
CRASHED = "crashed"
LOST = "lost"
TOO_LATE = "too late"           # enough others had arrived
OVER = "run over"               # the run ended before the job did
# why a device of the cohort did not deliver: it dropped out ...
DROPS = (BATTERY_EMPTY, DEADLINE, INFEASIBLE, OVER_BUDGET, OFF, CRASHED, LOST, TOO_LATE)
UNDELIVERED = (*DROPS, OVER)    # ... or nobody waited for it any more

BOOKS = ("harvest", "idle", "spilt")       # joules since the run began, of batteries that are charged or draw at rest

KINDS = ("span", "instant", "counter")
# Column to its type in memory (array.array) and in the files (polars); "s" is text, kept as a number while recording.
ROWS = {"seq": "q", "round": "i", "kind": "s", "name": "s", "device": "i", "job": "q", "t0": "d", "t1": "d",
        "value": "d", "energy_j": "d"}
DERIVED = ("seq", "round")      # of a row's columns: not recorded, but counted
LINKS = {"src": "q", "dst": "q"}
JOBS = {"job": "q", "round": "i", "version": "i", "device": "i", "t0": "d", "gain": "d", "bits": "d", "cycles": "d",
        "budget_j": "d", "cpu_hz": "d", "power_w": "d", "bandwidth_hz": "d", "planned_s": "d", "compute_s": "d",
        "wait_s": "d", "upload_s": "d", "t1": "d", "energy_j": "d", "outcome": "s", "staleness": "i"}
# Of a job, what is always a finite number, and what is none where it had no plan.
FINITE = ("t0", "t1", "gain", "bits", "cycles", "compute_s", "upload_s", "wait_s", "energy_j")
MAY_BE_NAN = ("cpu_hz", "power_w", "bandwidth_hz", "planned_s")
TABLES = {"trace": ROWS, "links": LINKS, "jobs": JOBS}      # by the folder that their parts lie in


def polars_schema(table: str) -> dict[str, Any]:
    """Column types of a table's files."""
    import polars as pl

    types = {"q": pl.Int64, "i": pl.Int32, "d": pl.Float64, "s": pl.String}
    return {name: types[code] for name, code in TABLES[table].items()}


def unsound(table: str, frame: pl.LazyFrame, rounds: int, devices: int) -> pl.LazyFrame:
    """How many rows of a table no run can have: one number, to be collected.

    A file with a right checksum may still be one that netsim never wrote.
    """
    import polars as pl

    return frame.select((~pl.all_horizontal(*_claims(rounds, devices)[table])).fill_null(True).sum())


def _claims(rounds: int, devices: int) -> dict[str, list[Any]]:
    """What holds for each row of a table."""
    from polars import all_horizontal, col, int_range, selectors
    from polars import len as height

    known = selectors.numeric() | selectors.by_name("kind")
    return {
        "trace": [
            col("round").is_between(1, rounds + 1), col("kind").is_in(KINDS), col("name").is_not_null(),
            col("device").is_between(CELL, devices - 1), col("job") >= -1, col("t0") <= col("t1")],
        "links": [col("src") >= 0, col("src") < col("dst")],
        "jobs": [
            col("job").is_between(0, 2**62), col("job").is_unique(), col("round").is_between(1, rounds + 1),
            col("version").is_between(0, rounds), col("device").is_between(0, devices - 1),
            col("staleness").is_between(0, rounds), col("outcome").is_in((ARRIVED, *UNDELIVERED)),
            col("budget_j").is_not_nan(), col("t0") <= col("t1"), col(*FINITE).is_finite(),
            ~col(*MAY_BE_NAN).is_infinite()],
        "devices": [
            col("device") == int_range(height()), height() == devices, all_horizontal(known.is_not_null()),
            all_horizontal(selectors.float().is_not_nan())],
    }

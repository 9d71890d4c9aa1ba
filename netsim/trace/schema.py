"""Tables of a trace: rows (events), links (cause and effect), and jobs (planned values and results).

Columns of a row
    seq        number of the row; that of a cause is smaller than that of its effect
    round      number of the aggregation that the row belongs to, from 1: one more than the spans "round" before it
    kind       "span" (t0 to t1), "instant" (t0 = t1) or "counter" (``value`` holds from t0 on)
    name       spans: download, compute, throttled (computing at a lower frequency than planned because of heat),
               upload, wait, off (the device is unavailable during a job), aggregate, round; instants: select, relax,
               allocate, and the reasons for failed jobs; counters: battery (J), bandwidth (Hz), accuracy, loss,
               cluster (of the device), packets (of an upload, with retransmissions), and since the start of the run
               harvest (J that reached a battery), idle (J drawn at idle) and spilt (J that reached a full battery);
               these and battery, with CELL as the device, are sums over all devices at each aggregation; metrics of
               a Flower app: train NAME, evaluate NAME, server NAME, initial NAME
    device     number of the device; SERVER or CELL for rows without a device
    job        number of the job; -1 for rows without a job
    t0, t1     simulated seconds
    value      value of a counter; factor of all energy budgets ("relax"); number of devices of another instant or of
               a round span
    energy_j   energy in J that a span took from the device

A link ``src -> dst`` says that row ``dst`` could not start before row ``src`` had ended.

Columns of a job
    job        number of the job
    round      number of the aggregation that it belongs to, from 1
    version    version of the model that it started from: the number of aggregations before its start
    device     number of the device
    t0, t1     seconds of dispatch and end
    gain       channel gain that the plan assumed
    bits, cycles             size of the upload and of the computation
    budget_j                 energy budget in J: that of the device, times the factor "relax", or its battery level if
                             that is less; without the energy of receiving the model
    cpu_hz, power_w          planned CPU frequency and transmit power; NaN without a plan
    bandwidth_hz             planned mean bandwidth; NaN without a plan
    planned_s                planned duration from the start of computing
    compute_s, upload_s, energy_j    measured values, with lost and repeated work; energy_j includes receiving the
                             model, whose time is that of the spans "download"
    wait_s     seconds of waiting for bandwidth, or with the device unavailable
    outcome    "arrived", or the reason for failure; "app failed: ERROR" with the error of a Flower app
    staleness  number of aggregations between its start and its end

No column holds wall-clock time, so equal runs have equal bytes.
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
APP_FAILED = "app failed"       # the ClientApp of a Flower app raised an exception
TOO_LATE = "too late"           # enough other jobs had arrived
OVER = "run over"               # the run ended before the job did
# failures of a device
DROPS = (BATTERY_EMPTY, DEADLINE, INFEASIBLE, OVER_BUDGET, OFF, CRASHED, LOST, TOO_LATE, APP_FAILED)
UNDELIVERED = (*DROPS, OVER)

BOOKS = ("harvest", "idle", "spilt")       # counters in J since the start of the run, with energy sources

KINDS = ("span", "instant", "counter")
# Types of columns (array.array codes); "s" is text, stored as an index while recording.
ROWS = {"seq": "q", "round": "i", "kind": "s", "name": "s", "device": "i", "job": "q", "t0": "d", "t1": "d",
        "value": "d", "energy_j": "d"}
DERIVED = ("seq", "round")      # columns of a row that are counted, not recorded
LINKS = {"src": "q", "dst": "q"}
JOBS = {"job": "q", "round": "i", "version": "i", "device": "i", "t0": "d", "gain": "d", "bits": "d", "cycles": "d",
        "budget_j": "d", "cpu_hz": "d", "power_w": "d", "bandwidth_hz": "d", "planned_s": "d", "compute_s": "d",
        "wait_s": "d", "upload_s": "d", "t1": "d", "energy_j": "d", "outcome": "s", "staleness": "i"}
# Columns of a job that are always finite, and those that are NaN without a plan.
FINITE = ("t0", "t1", "gain", "bits", "cycles", "compute_s", "upload_s", "wait_s", "energy_j")
MAY_BE_NAN = ("cpu_hz", "power_w", "bandwidth_hz", "planned_s")
TABLES = {"trace": ROWS, "links": LINKS, "jobs": JOBS}      # by the folder of their parts


def polars_schema(table: str) -> dict[str, Any]:
    import polars as pl

    types = {"q": pl.Int64, "i": pl.Int32, "d": pl.Float64, "s": pl.String}
    return {name: types[code] for name, code in TABLES[table].items()}


def unsound(table: str, rounds: int, devices: int) -> pl.Expr:
    """Return an expression that counts the rows of a table with values that no run can have.

    A file with a valid checksum may still not be written by netsim.
    """
    import polars as pl

    return (~pl.all_horizontal(*_claims(rounds, devices)[table])).fill_null(True).sum().alias("invalid")


def _claims(rounds: int, devices: int) -> dict[str, list[Any]]:
    """Return the conditions that each row of a table meets."""
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
            col("staleness").is_between(0, rounds),
            col("outcome").is_in((ARRIVED, *UNDELIVERED)) | col("outcome").str.starts_with(f"{APP_FAILED}: "),
            col("budget_j").is_not_nan(), col("t0") <= col("t1"), col(*FINITE).is_finite(),
            ~col(*MAY_BE_NAN).is_infinite()],
        "devices": [
            col("device") == int_range(height()), height() == devices, all_horizontal(known.is_not_null()),
            all_horizontal(selectors.float().is_not_nan())],
    }

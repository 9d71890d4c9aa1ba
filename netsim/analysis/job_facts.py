"""What one wants to know of a slice that one points at: the decision behind it, from the table of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from netsim.trace.schema import ARRIVED

if TYPE_CHECKING:
    from netsim.run import Run

FACTS = ("bandwidth_hz", "cpu_hz", "rate_bit_per_s", "gain_db", "power_w", "budget_j")


def job_facts(run: Run) -> pl.DataFrame:
    """A row a job: job, outcome and the FACTS; null where there is none, as without a plan.

    The rate is that of the upload: as it went, or, where it did not arrive, as it was planned.
    """
    arrived = (pl.col("outcome") == ARRIVED) & (pl.col("upload_s") > 0.0)
    upload_s = pl.when(arrived).then("upload_s").otherwise(pl.col("planned_s") - pl.col("cycles") / pl.col("cpu_hz"))
    known = run.scan_jobs().select(
        "job", "outcome", "bandwidth_hz", "cpu_hz", "power_w", "budget_j", rate_bit_per_s=pl.col("bits") / upload_s,
        gain_db=10.0 * pl.col("gain").log10())
    return run.collect(known.select(
        "job", "outcome", *(pl.when(pl.col(name).is_finite()).then(pl.col(name)).alias(name) for name in FACTS)))

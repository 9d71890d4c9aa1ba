"""A simulated run, read from its folder."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.base import html
from netsim.base.errors import MOST_LISTED, InputError, describe_value
from netsim.base.files import TemporaryFolder, read_json
from netsim.base.frames import WithPandas, in_order
from netsim.base.pluralize import pluralize
from netsim.trace.overlap import parts_by_overlap
from netsim.trace.run_directory import is_being_written, read_info
from netsim.trace.schema import DROPS, unsound
from netsim.trace.store import read_checksums, scan, verify

if TYPE_CHECKING:
    import networkx as nx
    import polars as pl
    from matplotlib.figure import Figure

    from netsim.scenario import Scenario

# Parts of a device's time in a round, and the names of their spans; unavailability during a job counts as waiting.
PARTS = {"compute": ("compute", "throttled"), "upload": ("upload",), "wait": ("wait", "off")}
DOWNLOAD = "download"                   # an additional part of runs with a downlink
ALL_PARTS = {DOWNLOAD: (DOWNLOAD,), **PARTS}
TEXTS = ("name", "kind")                 # columns of devices that reports read
NUMBERS = ("device", "samples", "budget_j", "battery_j", "x_m", "y_m", "gain")
LARGEST = 1e150                         # seconds or joules: squares and sums of larger values overflow


class RunTables(WithPandas):
    """The tables of a run, each verified and read on first use."""

    frames = ("rounds", "jobs", "spans", "events", "devices")

    def __init__(self, path: Path | str, keep: TemporaryFolder | None = None, *, checked: bool = False) -> None:
        if not isinstance(path, str | Path):
            raise InputError("wrong-type", "load_run", describe_value(path), "the folder of a run")
        self.path = Path(path)
        self._keep = keep               # temporary folder, deleted with this object
        self._checked = checked         # whether this process has written or checked the rows of the trace
        self.info = read_info(self.path)
        self.last_round: int = self.info["round"]

    @cached_property
    def scenario(self) -> Scenario:
        """The scenario of the run."""
        from netsim.scenario import load_scenario

        verify(self.path, "scenario.toml", self._checksums)
        return load_scenario(str(self.path / "scenario.toml"))

    @cached_property
    def _checksums(self) -> dict[str, str]:
        return read_checksums(self.path)

    def scan(self) -> pl.LazyFrame:
        """Return the whole trace as a lazy frame, for runs that are too large for memory.

        Returns
        -------
        polars.LazyFrame
            Columns as in ``netsim.trace.schema``.
        """
        return self._trace

    @cached_property
    def _trace(self) -> pl.LazyFrame:
        """The trace, after a check of its rows."""
        trace = scan(self.path, "trace", self.last_round, self._checksums)
        if not self._checked:
            self._check_rows(trace)
        return trace

    def _check_rows(self, trace: pl.LazyFrame) -> None:
        """Raise InputError unless the parts of the trace are complete, consecutive and numeric."""
        import polars as pl

        # a counter may be infinite: mains power, or the loss of a diverged model
        count = (pl.col("kind") == "counter") | pl.col("value").is_between(-LARGEST, LARGEST)
        numbers = pl.all_horizontal(count, pl.col("t0", "t1", "energy_j").is_between(-LARGEST, LARGEST))
        invalid, gaps, rounds, numeric = self.collect(trace.select(
            unsound("trace", self.last_round, self.number_of_devices),
            pl.col("seq").ne_missing(pl.int_range(pl.len())).any().alias("gaps"),
            pl.col("round").filter(pl.col("name") == "round").n_unique().alias("rounds"),
            numbers.all(ignore_nulls=False).alias("numeric"))).row(0)
        self._refuse(invalid, "trace")
        if gaps or rounds != self.last_round:
            raise InputError("damaged", str(self.path / "trace"), f"{rounds} of {pluralize(self.last_round, 'round')}"
                             f"{', and row numbers with gaps' if gaps else ''}",
                             hint="A part is missing, or belongs to another run")
        if not numeric:
            raise InputError("damaged", str(self.path / "trace"), "times, energies or counts that are no numbers")

    def _sound(self, table: str) -> pl.LazyFrame:
        """Return a table as a lazy frame, after a check of its files and its values."""
        frame = scan(self.path, table, self.last_round, self._checksums)
        self._refuse_unsound(table, frame, self.number_of_devices)
        return frame

    def _refuse_unsound(self, table: str, frame: pl.LazyFrame, devices: int) -> None:
        self._refuse(self.collect(frame.select(unsound(table, self.last_round, devices))).item(), table)

    def _refuse(self, invalid: int, table: str) -> None:
        if invalid:
            raise InputError(
                "damaged", str(self.path / table), pluralize(invalid, "row") + " with invalid values")

    @cached_property
    def number_of_devices(self) -> int:
        """Number of devices of the population."""
        return self.devices.height

    def collect(self, frame: pl.LazyFrame) -> pl.DataFrame:
        """Read a lazy frame over this run's files; raise InputError for an unreadable file."""
        import polars as pl

        try:
            return frame.collect()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InputError("unreadable", str(self.path / "trace"), str(error)) from None

    @cached_property
    def events(self) -> pl.DataFrame:
        return self.collect(self.scan())

    @cached_property
    def spans(self) -> pl.DataFrame:
        import polars as pl

        return self.collect(self.scan().filter(pl.col("kind") == "span").drop("kind"))

    @cached_property
    def links(self) -> pl.DataFrame:
        return self.collect(self.scan_links())

    def scan_links(self) -> pl.LazyFrame:
        """Return the links as a lazy frame, after a check."""
        return self._sound("links")

    @cached_property
    def jobs(self) -> pl.DataFrame:
        return self.collect(self.scan_jobs())

    def scan_jobs(self) -> pl.LazyFrame:
        """Return the jobs as a lazy frame, after a check."""
        return self._sound("jobs")

    @cached_property
    def devices(self) -> pl.DataFrame:
        import polars as pl

        file = self.path / "devices.parquet"
        verify(self.path, file.name, self._checksums)
        try:
            found = pl.read_parquet(file, glob=False)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InputError("unreadable", str(file), str(error), "a table of devices") from None
        fit = {key: kind == pl.String if key in TEXTS else kind.is_numeric() for key, kind in found.schema.items()}
        wrong = [name for name in (*TEXTS, *NUMBERS, *fit) if not fit.get(name)]
        if wrong:
            raise InputError("damaged", str(file), f"no column {wrong[0]}, or one of another type")
        self._refuse_unsound("devices", found.lazy(), self.scenario.size)
        return found


class Run(RunTables):
    """A run with its tables (polars frames, read on first use) and analyses; times in s, energies in J.

    ``rounds``   round, t0, t1, round_s, cohort, arrived, dropped, energy_j, compute_s, upload_s, wait_s, accuracy,
                 loss; the parts (with download_s in runs with a downlink) are means over the devices that took part,
                 and sum to round_s. If jobs extend over several rounds, the parts are the shares of all jobs' time
                 in the round
    ``jobs``     planned values and results of each job; columns as in netsim.trace.schema
    ``spans``    the trace's spans: round, name, device, job, t0, t1, value, energy_j
    ``events``   the whole trace; columns as in netsim.trace.schema
    ``links``    src, dst: trace rows of cause and effect
    ``devices``  the population with its drawn properties
    """

    @property
    def summary(self) -> dict[str, Any]:
        """Result of the run, as ``netsim run --json`` prints it."""
        file = self.path / "summary.json"
        if not file.exists():
            raise InputError("missing", str(file), hint=f"Round {self.last_round} is complete; continue with --resume")
        verify(self.path, file.name, {file.name: self.info.get("summary_sha256", "")}, "run.json")
        return dict(read_json(file, "a run's result"))

    @property
    def changed(self) -> list[str]:
        """Changes of the scenario by ``--set`` or ``with_``, each as ``cell.bandwidth = 10MHz``."""
        return [str(each) for each in given] if isinstance(given := self.info.get("changed"), list) else []

    @property
    def title(self) -> str:
        """Name of the scenario, its changes, and the seed."""
        changed, more = self.changed[:MOST_LISTED], len(self.changed) - MOST_LISTED
        suffix = f" with {', '.join(changed)}{f' and {more} more' if more > 0 else ''}" if changed else ""
        return f"{self.info['scenario']}{suffix}, seed {self.info['seed']}"

    @property
    def app(self) -> str | None:
        """The Flower app that selected and trained; None for a run of netsim's own server."""
        return str(self.info["app"]) if "app" in self.info else None

    @cached_property
    def rounds(self) -> pl.DataFrame:
        import polars as pl

        table = self._by_round
        if not self.in_rounds:
            table = parts_by_overlap(table, self.spans.filter(pl.col("device") >= 0), ALL_PARTS)
        table = table.with_columns((pl.col("arrived") + pl.col("dropped")).alias("cohort")).select(
            "round", "t0", "t1", "round_s", "cohort", "arrived", "dropped", "energy_j",
            *(f"{part}_s" for part in ALL_PARTS), "accuracy", "loss")
        return table if (table["download_s"] > 0.0).any() else table.drop("download_s")

    @cached_property
    def _by_round(self) -> pl.DataFrame:
        """The complete rounds, and the start of each round's first work, in one pass over the trace."""
        import polars as pl

        name, length = pl.col("name"), pl.col("t1") - pl.col("t0")
        whole, work = name == "round", (pl.col("kind") == "span") & (pl.col("device") >= 0)
        parts = {f"{part}_s": in_order(length.filter(work & name.is_in(spans))) for part, spans in ALL_PARTS.items()}
        last = {counter: pl.col("value").filter((pl.col("kind") == "counter") & (name == counter)).last()
                for counter in ("accuracy", "loss")}
        rounds = self.collect(self.scan().group_by("round", maintain_order=True).agg(     # else sums depend on threads
            pl.col("t0", "t1").filter(whole).first(), round_s=length.filter(whole).first(),
            arrived=pl.col("value").filter(whole).first().cast(pl.Int32),
            dropped=((pl.col("kind") == "instant") & name.is_in(DROPS)).sum().cast(pl.Int32),
            energy_j=in_order(pl.col("energy_j").filter(work)), devices=pl.col("device").filter(work).n_unique(),
            first_work=pl.col("t0").filter(work).min(), **parts, **last))
        idle = pl.col("devices") == 0                     # a round without devices is all waiting
        return rounds.filter(pl.col("t0").is_not_null()).sort("round").with_columns(
            *(pl.when(idle).then(pl.col("round_s") if part == "wait_s" else 0.0)
              .otherwise(pl.col(part) / pl.col("devices")).alias(part) for part in parts))

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts of a device's time: compute, upload, wait, and before them download with a downlink."""
        return tuple(part for part in ALL_PARTS if f"{part}_s" in self.rounds.columns)

    @cached_property
    def in_rounds(self) -> bool:
        """True if every job starts and ends in one round, as with a synchronous server."""
        return not (self._by_round["first_work"] < self._by_round["t0"]).any()

    # Analyses and reports: loaded on the first call, since the simulation must not import them.

    def breakdown(self) -> Any:
        """Break down the use of time, energy and bandwidth.

        Returns
        -------
        netsim.analysis.breakdown.Breakdown
            ``.rounds``, ``.devices`` and ``.shares`` are frames, ``.totals`` is a dict.
        """
        return self._breakdown

    @cached_property
    def _breakdown(self) -> Any:
        return _loaded("netsim.analysis.breakdown", "break_down")(self)

    def critical_path(self, round: int | None = None) -> Any:
        """Find the critical path of the run or of one round.

        Parameters
        ----------
        round : int, optional
            Number of the round, from 1; by default the whole run.

        Returns
        -------
        netsim.analysis.critical_path.CriticalPath
            ``.steps``, ``.causes`` and ``.slack`` are frames, ``.length_s`` is in seconds.
        """
        return self._critical_path if round is None else _loaded(
            "netsim.analysis.critical_path", "find_critical_path")(self, round)

    @cached_property
    def _critical_path(self) -> Any:
        return _loaded("netsim.analysis.critical_path", "find_critical_path")(self)

    def explain(self, round: int | None = None, *, allow_import: bool = False, **more: Any) -> Any:
        """Explain the length of a round, and estimate the effect of changes.

        Parameters
        ----------
        round : int, optional
            Number of the round, from 1; by default the slowest round, and the run as a whole.
        allow_import : bool
            Allow the scenario to name code of packages that are not made for netsim.
        **more : object
            ``methods=False`` omits other allocation methods, some of which are slow; ``progress`` is a function.

        Returns
        -------
        netsim.analysis.explain.Explanation
            ``.binding`` are the limits that determine the length, ``.what_if`` the changes by decreasing saving.
        """
        return _loaded("netsim.analysis.explain", "explain")(self, round, allow_import=allow_import, **more)

    def graph(self, round: int | None = None) -> nx.DiGraph:
        """Return the links of the run or of one round as a graph, whose longest path is the critical path.

        Parameters
        ----------
        round : int, optional
            Number of the round, from 1; by default the whole run.

        Returns
        -------
        networkx.DiGraph
            Nodes are trace rows; an edge leads from cause to effect.
        """
        links: nx.DiGraph = _loaded("netsim.analysis.critical_path", "causal_graph")(self, round)
        return links

    def figure(self, kind: str, round: int | None = None) -> Figure:
        """Draw a figure of the run.

        Parameters
        ----------
        kind : {"gantt", "breakdown", "energy", "band", "accuracy"}
            Contents of the figure.
        round : int, optional
            Number of the round of a Gantt chart, from 1.

        Returns
        -------
        matplotlib.figure.Figure
        """
        drawn: Figure = _loaded("netsim.report.figures", "draw")(self, kind, round)
        return drawn

    def _repr_html_(self) -> str:
        columns = ["round", "cohort", "arrived", "round_s", "energy_j", "compute_s", "upload_s", "wait_s"]
        if not self.rounds["accuracy"].is_nan().all():
            columns.append("accuracy")
        title = f"{self.title}: {pluralize(self.rounds.height, 'round')} ({self.info['status']})"
        return html.table(title, columns, self.rounds.select(columns).rows())

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {pluralize(self.last_round, 'round')}, {self.info['status']})"


def load_run(path: Path | str) -> Run:
    """Open the run in a folder; an interrupted run has its complete rounds.

    Parameters
    ----------
    path : str or Path
        Folder of the run.

    Returns
    -------
    Run
        The run; its tables are read on first use.

    Raises
    ------
    InputError
        The folder holds no run, the run is damaged, or a process is writing it.

    Examples
    --------
    >>> from netsim import load_run, simulate
    >>> run = simulate("tiny", "tiny-run", learning=False)
    >>> load_run("tiny-run").rounds.height
    3
    """
    run = Run(path)
    if is_being_written(run.path):
        raise InputError("busy", str(path), hint=f"Round {run.last_round} is complete; wait for the run to finish")
    return run


def _loaded(module: str, function: str) -> Any:
    return getattr(import_module(module), function)

"""Sweeps from Python, whose values may be functions and classes of the session."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

from netsim.base.errors import InputError, describe_value
from netsim.base.files import folder_for
from netsim.base.pluralize import pluralize
from netsim.executors.factory import ExecutorFactory, place_for
from netsim.executors.workers import InProcess
from netsim.scenario import Scenario
from netsim.sweep.points import SweepProgress
from netsim.sweep.progress import progress_bar
from netsim.sweep.results import SweepResults
from netsim.sweep.session_objects import SessionNames
from netsim.sweep.sweep import run_all
from netsim.sweep.sweep_file import PlannedCase, Sweep, cases_of, check_case, located, seeds_of
from netsim.validation import BROUGHT, as_scenario, check_arguments


def run_sweep(
    scenario: Scenario | Mapping[str, Any] | Path | str, vary: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    seeds: int | Iterable[int] = 1, out: Path | str | None = None, *, learning: bool = True,
    workers: int | None = None, cluster: str | None = None, allow_import: bool = False,
    progress: Callable[[SweepProgress], None] | bool | None = None, **own: Any,
) -> SweepResults:
    """Run a scenario under every combination of varied values and every seed.

    A point that fails is listed in the results with its error. Points run in this process, one after the other, unless
    ``workers`` or ``cluster`` is given. A sweep with a folder is resumed: only missing points run.

    Parameters
    ----------
    scenario : Scenario, mapping, path or str
        A scenario, or what ``load_scenario`` accepts.
    vary : mapping or sequence of mappings
        Scenario keys with lists of values (every combination is a case), or a list of dicts, one per case, with an
        optional ``label``. Values may be functions and classes of this Python session. Their points run again if their
        code has changed, or that of a function of the same module that they call.
    seeds : int or iterable of int
        Number of seeds, from 0, or the seeds.
    out : path, optional
        Folder of the sweep; an interrupted sweep in it is resumed. Without it, the results are deleted with the
        returned object.
    learning : bool
        Train models; False simulates the rounds without training.
    workers : int, optional
        Number of worker processes.
    cluster : str, optional
        Address of a Dask scheduler, such as ``"tcp://host:8786"``.
    allow_import : bool
        Permit code of packages that were not made for netsim.
    progress : callable or bool, optional
        Called with a ``SweepProgress`` about twice a second. True shows a progress bar on standard error, False shows
        nothing; by default there is a bar on a terminal and in a notebook.
    **own : function or class
        ``allocation``, ``selection``, ``model``, ``dataset``, ``channel`` or ``link`` of all points.

    Returns
    -------
    SweepResults
        Tables, figures and the report of the sweep.

    Raises
    ------
    InputError
        If a key or value is invalid in any case, an object of the session cannot be passed to a worker, or all points
        failed.

    Examples
    --------
    >>> results = run_sweep("tiny", {"allocation.method": ["sao", "equal"]}, seeds=2, learning=False)
    >>> results.table.select("allocation.method", "seed").rows()
    [('sao', 0), ('sao', 1), ('equal', 0), ('equal', 1)]
    """
    check_arguments(own, seed=0, workers=workers, resume=False, out=out, learning=learning,
                    progress=None if isinstance(progress, bool) else progress)
    table = _table(vary)
    try:
        numbers = seeds_of(seeds)
        cases = cases_of(table, len(numbers))
    except InputError as error:
        raise located(error, "run_sweep") from None
    folder, keep = folder_for(out)
    with ExitStack() as stack:
        lent = SessionNames(stack)
        fixed = {BROUGHT[what][1]: lent.name(BROUGHT[what][1], thing) for what, thing in own.items()}
        base = as_scenario(scenario, fixed)
        keys = {what: key for what, (_, key) in BROUGHT.items()}      # as in simulate(..., allocation=mine)
        whole = []
        for case in cases:
            label = case.pop("label", None)
            settings = {keys.get(key, key): lent.name(keys.get(key, key), value) for key, value in case.items()}
            whole.append(PlannedCase(settings, base.with_(settings) if settings else base, label))
        for each in whole:
            check_case(each.scenario, learning, allow_import)
        sweep = Sweep(base.name, folder, tuple(whole), tuple(numbers), learning)
        here = workers is None and cluster is None
        place = ExecutorFactory(InProcess, at_once=1) if here else lent.passed_to(place_for(workers, cluster))
        watch = stack.enter_context(_shown(progress, base.name))
        run_all(sweep, place, watch, allow_import=allow_import)
    found = SweepResults(folder, keep)
    reasons = [reason for case in found.cases for reason in case.failed.values()]
    if reasons and not any(case.rows for case in found.cases):
        raise InputError("your-code" if lent else "infeasible", f"sweep {base.name}",
                         f"all {pluralize(len(reasons), 'point')}: {reasons[0]}")
    return found


def _shown(progress: Any, name: str) -> AbstractContextManager[Callable[[SweepProgress], None]]:
    """Return the function to call with the progress: the caller's, a progress bar, or one that does nothing."""
    if callable(progress):
        return nullcontext(progress)
    if progress or (progress is None and (sys.stderr.isatty() or "ipykernel" in sys.modules)):
        return progress_bar(name)
    return nullcontext(lambda at: None)


def _table(vary: Any) -> dict[str, Any]:
    """Return ``vary`` as the table of a sweep file."""
    if isinstance(vary, Mapping):
        return {"grid": vary}
    if isinstance(vary, Sequence) and not isinstance(vary, str):
        return {"list": list(vary)}
    raise InputError("wrong-type", "run_sweep: vary", describe_value(vary),
                     "a dict of keys with lists of values, or a list of dicts")

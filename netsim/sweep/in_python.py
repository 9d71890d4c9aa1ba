"""Sweeps from Python, whose values may be functions and classes of the session."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.base.errors import InputError, found
from netsim.base.files import folder_for
from netsim.learning.pool import InProcess
from netsim.prepare import BROUGHT, as_scenario, check_arguments
from netsim.sweep.executor import Place, place_for
from netsim.sweep.points import SweepProgress
from netsim.sweep.results import SweepResults
from netsim.sweep.sweep import run_all
from netsim.sweep.sweep_file import Sweep, cases_of, check_case, located, seeds_of

if TYPE_CHECKING:
    from netsim.scenario import Scenario


def run_sweep(
    scenario: Scenario | Mapping[str, Any] | Path | str, vary: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    seeds: int | Iterable[int] = 1, out: Path | str | None = None, *, learning: bool = True,
    workers: int | None = None, cluster: str | None = None, allow_import: bool = False,
    progress: Callable[[SweepProgress], None] | None = None, **own: Any,
) -> SweepResults:
    """Run a scenario under every combination of varied values and every seed.

    A point that fails is listed in the results with its error. Points run in this process, one after the other, unless
    ``workers`` or ``cluster`` is given.

    Parameters
    ----------
    scenario : Scenario, mapping, path or str
        A scenario, or what ``load_scenario`` accepts.
    vary : mapping or sequence of mappings
        Scenario keys with lists of values (every combination is a case), or a list of dicts, one per case. Values may
        be functions and classes of this Python session; such points run in this process, and again on every call.
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
    progress : callable, optional
        Called with a ``SweepProgress`` about twice a second.
    **own : function or class
        ``allocation``, ``selection``, ``model``, ``dataset``, ``channel`` or ``link`` of all points.

    Returns
    -------
    SweepResults
        Tables, figures and the report of the sweep.

    Raises
    ------
    InputError
        If a key or value is invalid in any case, or objects of the session are combined with workers or a cluster.

    Examples
    --------
    >>> results = run_sweep("tiny", {"allocation.method": ["sao", "equal"]}, seeds=2, learning=False)
    >>> results.table.select("allocation.method", "seed").rows()
    [('sao', 0), ('sao', 1), ('equal', 0), ('equal', 1)]
    """
    check_arguments(own, seed=0, workers=workers, resume=False, out=out, learning=learning, progress=progress)
    table = _table(vary)
    try:
        numbers = seeds_of(seeds)
        cases = cases_of(table, len(numbers))
    except InputError as error:
        raise located(error, "run_sweep") from None
    folder, keep = folder_for(out)
    with ExitStack() as stack:
        lent = _Lent(stack)
        fixed = {BROUGHT[what][1]: lent.name(BROUGHT[what][1], thing) for what, thing in own.items()}
        base = as_scenario(scenario, fixed)
        keys = {what: key for what, (_, key) in BROUGHT.items()}      # as in simulate(..., allocation=mine)
        settings = [{keys.get(key, key): lent.name(keys.get(key, key), value) for key, value in case.items()}
                    for case in cases]
        scenarios = [base.with_(case) if case else base for case in settings]
        for each in scenarios:
            check_case(each, learning, allow_import)
        sweep = Sweep(base.name, folder, tuple(zip(settings, scenarios, strict=True)), tuple(numbers), learning)
        if lent.names:
            if workers is not None or cluster is not None:
                raise InputError("conflict", "run_sweep: workers, cluster",
                                 f"{', '.join(sorted(lent.names))} of this session",
                                 hint="Objects of a Python session stay in its process: remove workers and cluster, "
                                      "or put the objects into an installed package")
            for point in sweep.points:      # stored results may come from other objects of the same names
                point.record.unlink(missing_ok=True)
                if point.run.is_dir() and not point.run.is_symlink():
                    shutil.rmtree(point.run)
        here = workers is None and cluster is None
        run_all(sweep, Place(InProcess, at_once=1) if here else place_for(workers, cluster),
                progress or (lambda at: None), allow_import=allow_import)
    return SweepResults(folder, keep)


class _Lent:
    """Temporary registry names of the session's objects that a sweep uses."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._things: dict[tuple[str, str], tuple[Any, str]] = {}      # by key and own name: object, registry name

    @property
    def names(self) -> set[str]:
        return {called for _, called in self._things}

    def name(self, key: str, value: Any) -> Any:
        """Return the scenario value: for a function or class, its temporary registry name."""
        if not callable(value):
            return value
        registry = next((registry for registry, named in BROUGHT.values() if named == key), None)
        if registry is None:
            raise InputError("wrong-type", f"run_sweep: {key}", found(value), "a value",
                             f"Functions and classes are accepted for {', '.join(BROUGHT)}")
        called = getattr(value, "__name__", type(value).__name__)
        if (key, called) not in self._things:
            self._things[key, called] = value, self._stack.enter_context(registry.lend(value))
        thing, name = self._things[key, called]
        if thing is not value:
            raise InputError("duplicate", f"run_sweep: {key}", f'two objects called "{called}"',
                             hint="Give them different names, which identify the cases")
        return name


def _table(vary: Any) -> dict[str, Any]:
    """Return ``vary`` as the table of a sweep file."""
    if isinstance(vary, Mapping):
        return {"grid": vary}
    if isinstance(vary, Sequence) and not isinstance(vary, str):
        return {"list": list(vary)}
    raise InputError("wrong-type", "run_sweep: vary", found(vary),
                     "a dict of keys with lists of values, or a list of dicts")

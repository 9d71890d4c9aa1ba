"""Sweeps from Python: a scenario, what to vary, seeds; functions and classes of the session may be among the values."""

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
    """Run a scenario under every combination of what is varied, and under each seed; returns the results.

    ``vary`` is a dict of keys with lists of values, or a list of dicts, one a case. ``seeds`` is how many, from 0 on,
    or which. ``out`` is the sweep's folder, from which it goes on if it was stopped (without one, the results live as
    long as the object returned). Points run in this process, one after the other, unless ``workers`` or a ``cluster``
    says otherwise. Functions and classes of this Python session may stand among the values, and be given for all points
    as ``allocation``, ``selection``, ``model``, ``dataset`` or ``channel``; such points run here, every time.
    A point that fails stays in the results with its reason.
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
                                 hint="Objects of a Python session stay in its process: leave out workers and cluster, "
                                      "or put the objects into an installed package")
            for point in sweep.points:      # they may have been run with other objects of the same names
                point.record.unlink(missing_ok=True)
                if point.run.is_dir() and not point.run.is_symlink():
                    shutil.rmtree(point.run)
        here = workers is None and cluster is None
        run_all(sweep, Place(InProcess, at_once=1) if here else place_for(workers, cluster),
                progress or (lambda at: None), allow_import=allow_import)
    return SweepResults(folder, keep)


class _Lent:
    """Names for the objects of the session that a sweep uses, as long as it runs."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._things: dict[tuple[str, str], tuple[Any, str]] = {}      # by key and own name: an object, its lent name

    @property
    def names(self) -> set[str]:
        return {called for _, called in self._things}

    def name(self, key: str, value: Any) -> Any:
        """A value as a scenario has it: of a function or class, the name that it is lent under."""
        if not callable(value):
            return value
        registry = next((registry for registry, named in BROUGHT.values() if named == key), None)
        if registry is None:
            raise InputError("wrong-type", f"run_sweep: {key}", found(value), "a value",
                             f"Functions and classes may stand for {', '.join(BROUGHT)}")
        called = getattr(value, "__name__", type(value).__name__)
        if (key, called) not in self._things:
            self._things[key, called] = value, self._stack.enter_context(registry.lend(value))
        thing, name = self._things[key, called]
        if thing is not value:
            raise InputError("duplicate", f"run_sweep: {key}", f'two objects called "{called}"',
                             hint="Give them different names, which tell the cases apart")
        return name


def _table(vary: Any) -> dict[str, Any]:
    """What is varied, as a sweep file says it."""
    if isinstance(vary, Mapping):
        return {"grid": vary}
    if isinstance(vary, Sequence) and not isinstance(vary, str):
        return {"list": list(vary)}
    raise InputError("wrong-type", "run_sweep: vary", found(vary),
                     "a dict of keys with lists of values, or a list of dicts")

"""Runtime environment of an app: simulated time and instrumented strategies.

``time.sleep`` and ``time.time`` use simulated seconds in the code of a ServerApp and of Flower, but not in other
libraries. Monotonic clocks are unchanged, since libraries use them for real timeouts.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from inspect import signature
from typing import Any

from flwr.serverapp.strategy import Strategy

from netsim.flower.app_server import AppServer
from netsim.flower.version_check import replaced

_SLEEP, _TIME = time.sleep, time.time


@contextmanager
def simulated_time(
    now: Callable[[], float], sleep: Callable[[float], None], within: Callable[[Mapping[str, Any]], bool],
) -> Iterator[None]:
    """Use simulated time inside the block, in this thread of this process and in modules for which ``within`` is True.

    ``within`` gets the global variables of a module, which may have imported ``sleep`` or ``time`` by name.
    """
    mine = os.getpid(), threading.get_ident()

    def here() -> bool:
        return (os.getpid(), threading.get_ident()) == mine and within(sys._getframe(2).f_globals)

    def our_sleep(seconds: Any) -> None:
        (sleep if here() else _SLEEP)(float(seconds))

    def our_time() -> float:
        return now() if here() else _TIME()

    ours: dict[Any, Any] = {_SLEEP: our_sleep, _TIME: our_time}
    with ExitStack() as stack:
        for module in [time, *(module for module in list(sys.modules.values()) if within(vars(module)))]:
            stack.enter_context(replaced(module, **{
                name: ours[value] for name, value in vars(module).items() if value is _SLEEP or value is _TIME}))
        yield


@contextmanager
def watched(server: AppServer, ended: Callable[[Any], None]) -> Iterator[None]:
    """Instrument ``start`` of all strategies inside the block: report the number of rounds, the server's own
    evaluations, and the last model (to ``ended``)."""
    def watching(start: Callable[..., Any]) -> Callable[..., Any]:
        takes = signature(start)

        def started(*args: Any, **options: Any) -> Any:
            given = takes.bind(*args, **options)
            given.apply_defaults()
            rounds = given.arguments.get("num_rounds")
            server.expected = server.rounds.version + rounds if isinstance(rounds, int) else server.expected
            if "evaluate_fn" in given.arguments:
                given.arguments["evaluate_fn"] = reporting(given.arguments["evaluate_fn"],
                                                            server.replies.reported.server)
            result = start(*given.args, **given.kwargs)
            ended(getattr(result, "arrays", None))
            return result

        return started

    def later(subclass: type, /, **options: Any) -> None:      # a class that the app defines when it runs
        if "start" in vars(subclass):
            setattr(subclass, "start", watching(vars(subclass)["start"]))      # noqa: B010

    with ExitStack() as stack:
        for each in [Strategy, *_subclasses(Strategy)]:
            if "start" in vars(each):
                stack.enter_context(replaced(each, start=watching(vars(each)["start"])))
        stack.enter_context(replaced(Strategy, __init_subclass__=classmethod(later)))
        yield


def _subclasses(kind: type) -> list[type]:
    found: list[type] = []
    subclass: type
    for subclass in kind.__subclasses__():
        found += [subclass, *_subclasses(subclass)]
    return found


def reporting(
    evaluate: Callable[[int, Any], Any] | None, evaluated: Callable[[int, Any], None],
) -> Callable[[int, Any], Any] | None:
    """Return the server's evaluation function, extended to report its results."""
    if evaluate is None or hasattr(evaluate, "reports"):
        return evaluate

    def evaluate_and_report(round: int, arrays: Any) -> Any:
        found = evaluate(round, arrays)
        if found is not None:
            evaluated(round, found)
        return found

    evaluate_and_report.reports = True      # type: ignore[attr-defined]  # ``start`` may call that of its base
    return evaluate_and_report

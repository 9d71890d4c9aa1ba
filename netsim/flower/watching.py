"""What a strategy says while it runs: how many rounds it means to play, what the server's own evaluation finds, and
the model that it ends with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from inspect import signature
from typing import Any

from flwr.serverapp.strategy import Strategy

from netsim.flower.library import replaced

Evaluated = Callable[[int, Any], None]


def watched(
    rounds: Callable[[int], None], evaluated: Evaluated, ended: Callable[[Any], None],
) -> AbstractContextManager[None]:
    """Meanwhile every strategy that starts tells these."""
    start = Strategy.start
    takes = signature(start)

    def watching(*args: Any, **options: Any) -> Any:
        given = takes.bind(*args, **options)
        given.apply_defaults()
        rounds(given.arguments["num_rounds"])
        given.arguments["evaluate_fn"] = reporting(given.arguments.get("evaluate_fn"), evaluated)
        result = start(*given.args, **given.kwargs)
        ended(result.arrays)
        return result

    return replaced(Strategy, start=watching)


def reporting(evaluate: Callable[[int, Any], Any] | None, evaluated: Evaluated) -> Callable[[int, Any], Any] | None:
    """The server's own evaluation, which also tells what it found."""
    def evaluate_and_report(round: int, arrays: Any) -> Any:
        assert evaluate is not None
        found = evaluate(round, arrays)
        if found is not None:
            evaluated(round, found)
        return found

    return None if evaluate is None else evaluate_and_report

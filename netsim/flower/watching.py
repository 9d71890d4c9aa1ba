"""What a strategy says while it runs: how many rounds it means to play, what the server's own evaluation finds, and
the model that it ends with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any
from unittest.mock import patch

from flwr.serverapp.strategy import Strategy


@contextmanager
def watched(
    rounds: Callable[[int], None], evaluated: Callable[[int, Any], None], ended: Callable[[Any], None],
) -> Iterator[None]:
    """Meanwhile every strategy that starts tells these."""
    start = Strategy.start
    takes = signature(start)

    def watching(*args: Any, **options: Any) -> Any:
        given = takes.bind(*args, **options)
        given.apply_defaults()
        rounds(given.arguments["num_rounds"])
        evaluate = given.arguments.get("evaluate_fn")
        if evaluate is not None:
            def evaluate_and_tell(round: int, arrays: Any) -> Any:
                found = evaluate(round, arrays)
                if found is not None:
                    evaluated(round, found)
                return found

            given.arguments["evaluate_fn"] = evaluate_and_tell
        result = start(*given.args, **given.kwargs)
        ended(result.arrays)
        return result

    with patch.object(Strategy, "start", watching):
        yield

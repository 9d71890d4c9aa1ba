"""The controls that the lab and the lessons share; needs marimo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import marimo as mo

from netsim.lab.lesson import Positions

_moved: ContextVar[dict[str, Any]] = ContextVar("moved")


@contextmanager
def moved(positions: Positions) -> Iterator[None]:
    """Controls that are made inside stand at these positions instead, given by label: a lesson run as if by hand."""
    left = dict(positions)
    token = _moved.set(left)
    try:
        yield
    finally:
        _moved.reset(token)
    if left:
        raise ValueError(f"no control is called {', '.join(map(repr, left))}")


def _position(label: str, value: Any) -> Any:
    return _moved.get({}).pop(label, value)


def slider(label: str, steps: Iterable[float], value: float, *, debounce: bool = False) -> Any:
    """A slider with its value beside it; ``debounce`` waits until it is let go, for what takes a while."""
    return mo.ui.slider(
        steps=list(steps), value=_position(label, value), label=label, show_value=True, full_width=True,
        debounce=debounce)


def between(label: str, steps: Iterable[float], value: Sequence[float]) -> Any:
    """A slider with two ends."""
    return mo.ui.range_slider(steps=list(steps), value=list(value), label=label, show_value=True, full_width=True)


def dropdown(label: str, options: Iterable[str], value: str) -> Any:
    """A choice of one among a few words."""
    return mo.ui.dropdown(list(options), value=_position(label, value), label=label)


def controls(*sliders: Any, row: Sequence[Any] = ()) -> Any:
    """Sliders in as many columns as there is room for, and smaller controls in a row below."""
    below = f'<div class="row">{"".join(f"{element}" for element in row)}</div>' if row else ""
    each = "".join(f"<div>{element}</div>" for element in sliders)
    return mo.Html(f'<div class="controls">{each}{below}</div>')


def side_by_side(pieces: Iterable[str]) -> str:
    """Pieces of HTML in two columns, or below each other where there is no room."""
    return '<div class="pair">' + "".join(f"<div>{piece}</div>" for piece in pieces) + "</div>"

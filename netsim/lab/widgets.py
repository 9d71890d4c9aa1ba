"""The controls that the lab and the lessons share; needs marimo."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import marimo as mo


def slider(label: str, steps: Iterable[float], value: float, *, debounce: bool = False) -> Any:
    """A slider with its value beside it; ``debounce`` waits until it is let go, for what takes a while."""
    return mo.ui.slider(
        steps=list(steps), value=value, label=label, show_value=True, full_width=True, debounce=debounce)


def between(label: str, steps: Iterable[float], value: Sequence[float]) -> Any:
    """A slider with two ends."""
    return mo.ui.range_slider(steps=list(steps), value=list(value), label=label, show_value=True, full_width=True)


def controls(*sliders: Any, row: Sequence[Any] = ()) -> Any:
    """Sliders in as many columns as there is room for, and smaller controls in a row below."""
    below = f'<div class="row">{"".join(f"{element}" for element in row)}</div>' if row else ""
    each = "".join(f"<div>{element}</div>" for element in sliders)
    return mo.Html(f'<div class="controls">{each}{below}</div>')


def side_by_side(pieces: Iterable[str]) -> str:
    """Pieces of HTML in two columns, or below each other where there is no room."""
    return '<div class="pair">' + "".join(f"<div>{piece}</div>" for piece in pieces) + "</div>"

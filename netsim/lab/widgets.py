"""The controls that the lab and the lessons share; needs marimo.

Each of them starts with what the address of the page says about it, so that a link holds them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from html import escape
from typing import Any

import marimo as mo

from netsim.lab.lesson import Positions
from netsim.lab.url_state import key_of, pick, pick_range, text_of

LINK = """<details class="link"><summary>A link that holds these settings</summary>
<p>The address of this page holds them, and with them the word that lets you in, which is new whenever the lab starts.
So keep and share this line instead; it opens the same page on any machine:</p>
<p><code></code> <button type="button">copy</button></p>
<p>Where a lab is open, the part from the question mark on can also be put behind its address.</p></details>"""
_moved: ContextVar[dict[str, Any]] = ContextVar("moved")


@contextmanager
def moved(positions: Positions) -> Iterator[None]:
    """Create controls inside the block at these positions, given by label."""
    left = dict(positions)
    token = _moved.set(left)
    try:
        yield
    finally:
        _moved.reset(token)
    if left:
        raise ValueError(f"no control is called {', '.join(map(repr, left))}")


def slider(label: str, steps: Iterable[float], value: float, *, debounce: bool = False) -> Any:
    """Return a slider with its value; ``debounce`` updates only when it is released, for slow computations."""
    offered = list(steps)
    return _linked(label, value, partial(pick, offered=offered), lambda start: mo.ui.slider(
        steps=offered, value=start, label=label, show_value=True, full_width=True, debounce=debounce))


def between(label: str, steps: Iterable[float], value: Sequence[float]) -> Any:
    """Return a slider with two ends."""
    offered = list(steps)
    return _linked(label, value, partial(pick_range, steps=offered), lambda start: mo.ui.range_slider(
        steps=offered, value=start, label=label, show_value=True, full_width=True))


def dropdown(label: str, options: Iterable[str], value: str) -> Any:
    offered = list(options)
    return _linked(label, value, partial(pick, offered=offered), lambda start: mo.ui.dropdown(
        offered, value=start, label=label))


def number(label: str, least: int, most: int, value: int) -> Any:
    return _linked(label, value, partial(pick, offered=range(least, most + 1)), lambda start: mo.ui.number(
        least, most, value=int(start), label=label))


def _linked(label: str, value: Any, choose: Callable[..., tuple[Any, str]], make: Callable[[Any], Any]) -> Any:
    """Return a control that starts at the last value in the page's address, or else at ``value``.

    The address is not bound to a variable, so that marimo does not recreate controls when it changes.
    """
    asked = next(reversed(mo.query_params().get_all(key_of(label))), None)
    start, in_link = choose(asked, start=_moved.get({}).pop(label, value))
    element = make(start)
    element.in_link = key_of(label), text_of(start), in_link
    return element


def controls(*sliders: Any, row: Sequence[Any] = ()) -> Any:
    """Lay out sliders in columns, smaller controls in a row below, and a link to the settings."""
    below = f'<div class="row">{"".join(map(_placed, row))}</div>' if row else ""
    return mo.Html(f'<div class="controls">{"".join(map(_placed, sliders))}{below}</div>'
                   f'<p class="notice unknown" role="status"></p>{LINK}')


def side_by_side(pieces: Iterable[str]) -> str:
    """Lay out pieces of HTML in two columns, or below each other on a narrow screen."""
    return '<div class="pair">' + "".join(f"<div>{piece}</div>" for piece in pieces) + "</div>"


def _placed(element: Any) -> str:
    """Return the element of a control; the page's script updates its value and the link."""
    start = getattr(element, "in_link", None)
    if not isinstance(start, tuple):
        return f"<div>{element}</div>"
    key, text, refused = start
    notice = f'<p class="notice" role="status">{escape(refused)}</p>' if refused else ""
    return f'<div data-key="{key}" data-value="{escape(text)}">{element}{notice}</div>'

"""Just enough SVG for bars, dots, lines and text, with an axis, in colours named by what they mean.

The style of a page may redefine the colours, as where it is dark; without such a style, in another notebook or a file,
they are those of a light page.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape

from netsim.report.figures import COLOURS, CRITICAL

LIGHT = {
    "ink": "#1c2430", "soft": "#5b6573", "grid": "#e3e7ec", "paper": "#ffffff", "idle": "#b9c0ca", "critical": CRITICAL,
    "compute": COLOURS["compute"], "upload": COLOURS["upload"], "wait": COLOURS["wait"],
    "pale": "#f3c08d",                                                     # every other upload, where they touch
    "on-compute": "#ffffff", "on-upload": "#1c2430", "on-wait": "#1c2430",  # what is written on them
    "c0": "#3d6fb4", "c1": "#e0862c", "c2": "#5f9e5a", "c3": "#8a5fb0",    # curves
}
MOST_FACTS = 12          # facts in the description for screen readers
PAINTED = re.compile(r"var\(--net-[\w-]+, (#\w+)\)")


def paint(name: str) -> str:
    """Return a colour as a CSS variable with a default."""
    return f"var(--net-{name}, {LIGHT[name]})"


def fixed(drawing: str) -> str:
    """Replace CSS variables by the colours of a light page, for programs without CSS."""
    return PAINTED.sub(r"\1", drawing)


INK, SOFT, GRID, PAPER = map(paint, ("ink", "soft", "grid", "paper"))


@dataclass
class Canvas:
    """A drawing of fixed proportions that fills the width it is given; lengths are in its own pixels."""

    width: float
    height: float
    label: str                                        # accessible name
    says: str = ""                                    # accessible description; by default the tips
    parts: list[str] = field(default_factory=list)
    tips: list[str] = field(default_factory=list)     # tooltips

    def rect(self, x: float, y: float, width: float, height: float, fill: str, tip: str = "", **more: str) -> None:
        """A bar; ``tip`` shows under the mouse, ``name`` is a class to find it by; ``more`` are attributes of SVG."""
        self._add("rect", tip, x=x, y=y, width=max(width, 0.0), height=height, fill=fill, **more)

    @contextmanager
    def group(self, tip: str) -> Iterator[None]:
        """Give all shapes drawn inside one tooltip."""
        self.tips.append(tip)
        self.parts.append(f"<g><title>{escape(tip)}</title>")
        yield
        self.parts.append("</g>")

    def dots(self, points: Iterable[tuple[float, float]], radius: float, colour: str) -> None:
        """Many small dots as one path of strokes without length: a page redraws it faster than as many circles."""
        way = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points)
        self.parts.append(f'<path d="{way}" stroke="{colour}" stroke-width="{2 * radius:g}" stroke-linecap="round"/>')

    def circle(self, x: float, y: float, radius: float, fill: str, *, tip: str = "", stroke: str = "none") -> None:
        self._add("circle", tip, cx=x, cy=y, r=radius, fill=fill, stroke=stroke)

    def line(self, x0: float, y0: float, x1: float, y1: float, stroke: str, tip: str = "", **more: str) -> None:
        self._add("line", tip, x1=x0, y1=y0, x2=x1, y2=y1, stroke=stroke, **more)

    def text(self, x: float, y: float, words: str, *, anchor: str = "start", fill: str = INK, size: float = 11) -> None:
        self.parts.append(f'<text x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}" fill="{fill}" font-size="{size:g}">'
                          f"{escape(words)}</text>")

    def area(self, points: Iterable[tuple[float, float]], fill: str, *, tip: str = "") -> None:
        """A filled polygon with an edge as bright as the page."""
        self._add("polygon", tip, name="area", points=_way(points), fill=fill, stroke=PAPER, stroke_width="0.4")

    def polyline(self, points: Iterable[tuple[float, float]], stroke: str, name: str = "") -> None:
        self._add("polyline", name=name, points=_way(points), fill="none", stroke=stroke, stroke_width="2")

    def _add(self, element: str, tip: str = "", **attributes: float | str) -> None:
        """An element; numbers have two digits behind the point, and ``name`` is its class."""
        said = "".join(f' {"class" if name == "name" else name.replace("_", "-")}="'
                       f'{value if isinstance(value, str) else f"{value:.2f}"}"' for name, value in attributes.items())
        self.tips += [tip] if tip else []
        self.parts.append(f"<{element}{said}" + (f"><title>{escape(tip)}</title></{element}>" if tip else "/>"))

    def svg(self, x: float = 0.0, y: float = 0.0, width: float | None = None) -> str:
        """The drawing as text; with a width it can stand inside another drawing at (x, y)."""
        tall = (width or 0.0) * self.height / self.width
        placed = f' x="{x:g}" y="{y:g}" width="{width:g}" height="{tall:g}"' if width else ""
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}"{placed} '
                f'role="img" font-family="system-ui, sans-serif"><title>{escape(self.label)}</title>'
                f'<desc>{escape(self.says or listed(self.tips))}</desc>{"".join(self.parts)}</svg>')


def listed(facts: Sequence[str]) -> str:
    """The first of many facts as one sentence, and how many more there are."""
    more = f"; and {len(facts) - MOST_FACTS} more" if len(facts) > MOST_FACTS else ""
    return f"{'; '.join(facts[:MOST_FACTS])}{more}."


def _way(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.2f},{y:.2f}" for x, y in points)


@dataclass(frozen=True)
class Scale:
    """Values from ``least`` to ``most`` along the axis from ``start`` to ``end``."""

    start: float
    end: float
    most: float
    least: float = 0.0

    def __call__(self, value: float) -> float:
        return self.start + (self.end - self.start) * (value - self.least) / (self.most - self.least)

    def ticks(self, about: int = 5) -> list[float]:
        """Return about ``about`` round numbers."""
        rough = (self.most - self.least) / about
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough * 0.999)
        first, last = math.ceil(self.least / step - 1e-9), math.floor(self.most / step + 1e-9)
        return [round(step * k, 12) for k in range(first, last + 1)]


def axis(canvas: Canvas, scale: Scale, top: float, bottom: float, words: str) -> None:
    """An axis from left to right: grid lines with their numbers below, and what they count."""
    for tick in scale.ticks():
        canvas.line(scale(tick), top, scale(tick), bottom, GRID)
        canvas.text(scale(tick), bottom + 13, f"{tick:g}", anchor="middle", fill=SOFT, size=10)
    canvas.text((scale.start + scale.end) / 2, bottom + 27, words, anchor="middle", fill=SOFT, size=10)


def upright(canvas: Canvas, scale: Scale, left: float, right: float, words: str) -> None:
    """An axis from bottom to top: grid lines with their numbers at the left, and what they count above."""
    for tick in scale.ticks():
        canvas.line(left, scale(tick), right, scale(tick), GRID)
        canvas.text(left - 5, scale(tick) + 3.5, f"{tick:g}", anchor="end", fill=SOFT, size=10)
    canvas.text(2, scale.end - 8, words, fill=SOFT, size=10)


def legend(canvas: Canvas, left: float, y: float, entries: dict[str, str]) -> float:
    """Coloured squares with their names, in as many rows as they need; returns where the last row is."""
    x = left
    for name, colour in entries.items():
        wide = 24 + 5.4 * len(name)
        if x > left and x + wide > canvas.width:
            x, y = left, y + 14
        canvas.rect(x, y - 8, 9, 9, colour)
        canvas.text(x + 13, y, name, fill=SOFT, size=10)
        x += wide
    return y

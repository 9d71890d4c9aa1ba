"""Just enough SVG for bars, dots, lines and text, with an axis."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape

INK, SOFT, GRID = "#1c2430", "#5b6573", "#e3e7ec"


@dataclass
class Canvas:
    """A drawing of fixed proportions that fills the width it is given; lengths are in its own pixels."""

    width: float
    height: float
    label: str                                        # what one sees, for those who can't
    parts: list[str] = field(default_factory=list)

    def rect(self, x: float, y: float, width: float, height: float, fill: str, *, tip: str = "", stroke: str = "none",
             name: str = "") -> None:
        """A bar; ``tip`` shows under the mouse, ``name`` is a class to find it by."""
        about = f' class="{name}"' if name else ""
        self._add(f'rect{about} x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.0):.2f}" height="{height:.2f}" fill="{fill}" '
                  f'stroke="{stroke}"', tip)

    def circle(self, x: float, y: float, radius: float, fill: str, *, tip: str = "", stroke: str = "none") -> None:
        self._add(f'circle cx="{x:.2f}" cy="{y:.2f}" r="{radius:.2f}" fill="{fill}" stroke="{stroke}"', tip)

    def line(self, x0: float, y0: float, x1: float, y1: float, stroke: str, width: float = 1.0, *, dashed: bool = False,
             tip: str = "") -> None:
        dashes = ' stroke-dasharray="4 3"' if dashed else ""
        self._add(f'line x1="{x0:.2f}" y1="{y0:.2f}" x2="{x1:.2f}" y2="{y1:.2f}" stroke="{stroke}" '
                  f'stroke-width="{width}"{dashes}', tip)

    def text(self, x: float, y: float, words: str, *, anchor: str = "start", fill: str = INK, size: float = 11) -> None:
        self.parts.append(f'<text x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}" fill="{fill}" font-size="{size:g}">'
                          f"{escape(words)}</text>")

    def _add(self, element: str, tip: str) -> None:
        inside = f"><title>{escape(tip)}</title></{element.split(None, 1)[0]}>" if tip else "/>"
        self.parts.append(f"<{element}{inside}")

    def svg(self, x: float = 0.0, y: float = 0.0, width: float | None = None) -> str:
        """The drawing as text; with a width it can stand inside another drawing at (x, y)."""
        placed = f' x="{x:g}" y="{y:g}" width="{width:g}" height="{width * self.height / self.width:g}"' if width else ""
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}"{placed} role="img" '
                f'aria-label="{escape(self.label)}" font-family="system-ui, sans-serif">{"".join(self.parts)}</svg>')


@dataclass(frozen=True)
class Scale:
    """Values from 0 to ``most`` along the axis from ``start`` to ``end``."""

    start: float
    end: float
    most: float

    def __call__(self, value: float) -> float:
        return self.start + (self.end - self.start) * value / self.most

    def ticks(self, about: int = 5) -> list[float]:
        """Round numbers, about so many."""
        rough = self.most / about
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(size * power for size in (1, 2, 5, 10) if size * power >= rough * 0.999)
        return [step * k for k in range(int(self.most / step * (1 + 1e-9)) + 1)]


def axis(canvas: Canvas, scale: Scale, top: float, bottom: float, words: str) -> None:
    """Grid lines with their numbers below, and what they count."""
    for tick in scale.ticks():
        canvas.line(scale(tick), top, scale(tick), bottom, GRID)
        canvas.text(scale(tick), bottom + 13, f"{tick:g}", anchor="middle", fill=SOFT, size=10)
    canvas.text((scale.start + scale.end) / 2, bottom + 27, words, anchor="middle", fill=SOFT, size=10)


def legend(canvas: Canvas, x: float, y: float, entries: dict[str, str]) -> None:
    """Coloured squares with their names, in a row."""
    for name, colour in entries.items():
        canvas.rect(x, y - 8, 9, 9, colour)
        canvas.text(x + 13, y, name, fill=SOFT, size=10)
        x += 24 + 5.4 * len(name)

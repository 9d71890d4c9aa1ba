"""The colours of the lab's pictures by what they mean; the style of a page may say them anew, as where it is dark.

Without such a style, in another notebook or a file, they are those of a light page.
"""

from __future__ import annotations

import re

from netsim.report.figures import COLOURS, CRITICAL

LIGHT = {
    "ink": "#1c2430", "soft": "#5b6573", "grid": "#e3e7ec", "paper": "#ffffff", "idle": "#b9c0ca", "critical": CRITICAL,
    "compute": COLOURS["compute"], "upload": COLOURS["upload"], "wait": COLOURS["wait"],
    "pale": "#f3c08d",                                                     # every other upload, where they touch
    "on-compute": "#ffffff", "on-upload": "#1c2430", "on-wait": "#1c2430",  # what is written on them
    "c0": "#3d6fb4", "c1": "#e0862c", "c2": "#5f9e5a", "c3": "#8a5fb0",    # curves
}
PAINTED = re.compile(r"var\(--net-[\w-]+, (#\w+)\)")


def paint(name: str) -> str:
    """A colour as it stands in a drawing."""
    return f"var(--net-{name}, {LIGHT[name]})"


def fixed(drawing: str) -> str:
    """A drawing for programs that know no styles of pages: every colour is that of a light page."""
    return PAINTED.sub(r"\1", drawing)

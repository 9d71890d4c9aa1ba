"""Figures of matplotlib, and files in the format of their name."""

from __future__ import annotations

import sys
from contextlib import chdir
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from netsim.base.errors import InputError, unknown
from netsim.base.files import replace_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:
    Axes = Figure = Any      # types alone: matplotlib is imported with the first figure


def library() -> ModuleType:
    """matplotlib, imported without the ``matplotlibrc`` that may lie in the current folder.

    That file could have programs called (``text.usetex``) and, before matplotlib 3.10.9, ran code. matplotlib looks for
    it when it is first imported, so every module of netsim that draws gets it here. The user's own settings
    (``MATPLOTLIBRC``, ``~/.config/matplotlib``) hold, as do those of a Python session that has imported it before.
    """
    if "matplotlib" not in sys.modules:
        with chdir("/"):
            import matplotlib  # noqa: F401
    return sys.modules["matplotlib"]


def as_it_stands(text: str) -> str:
    """Escape ``$`` in a text for a figure, which would start a formula."""
    return text.replace("$", r"\$")


def new_figure(width: float, height: float) -> Figure:
    """Return a figure that notebooks display without pyplot."""
    from base64 import b64encode
    from io import BytesIO

    library()
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        """Figure with the display methods of Jupyter and marimo."""

        def _repr_png_(self) -> bytes:
            picture = BytesIO()
            self.savefig(picture, format="png", dpi=110)
            return picture.getvalue()

        def _mime_(self) -> tuple[str, str]:
            return "image/png", f"data:image/png;base64,{b64encode(self._repr_png_()).decode()}"

    return ShownFigure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: Path, **options: Any) -> None:
    """Write a figure to a file atomically, without following links."""
    kind = path.suffix[1:].lower()
    allowed = figure.canvas.get_supported_filetypes()
    if kind not in allowed:
        raise unknown(str(path), kind, allowed)
    try:
        replace_file(path, lambda file: figure.savefig(file, format=kind, **{"dpi": 150, **options}))
    except OSError as error:
        raise InputError("unwritable", str(path), error.strerror or str(error)) from None

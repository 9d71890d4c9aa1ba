"""Figures as files, in the format that the file's name asks for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.base.errors import InputError, one_of
from netsim.base.files import replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save_figure(figure: Figure, path: Path, **options: Any) -> None:
    """Draw a figure into a file, whole or not at all, and through no link."""
    kind = path.suffix[1:].lower()
    allowed = figure.canvas.get_supported_filetypes()
    if kind not in allowed:
        raise InputError(f'{path}: no picture format "{path.suffix}"; {one_of(kind, allowed)}')
    try:
        replace_file(path, lambda file: figure.savefig(file, format=kind, **{"dpi": 150, **options}))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None

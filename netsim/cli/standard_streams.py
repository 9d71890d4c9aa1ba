"""Standard output and error that survive a closed reader and a limited locale."""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import TextIO

# One character for one, so that tables stay in line; rich draws their frames in ASCII by itself.
PLAIN = str.maketrans({
    "µ": "u", "μ": "u", "…": "~", "−": "-", "–": "-", "—": "-", "×": "x", "·": ".", "≤": "<", "≥": ">", "’": "'",
    "‘": "'", "“": '"', "”": '"', "•": "*", "→": ">", "█": "#", "▒": "=", "░": ".", "━": "-", "╸": "-", "╺": "-",
    **dict(zip("▁▂▃▄▅▆▇", "_.,-~+*", strict=True)), **dict.fromkeys("─═╌┄", "-"), **dict.fromkeys("│║┃╎", "|"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯╞╡╪┏┓┗┛┡┩╇╈┠┨┯┷┿", "+"),
})


def plain(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replace characters that the terminal cannot show by similar ASCII, or by their escape sequence."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    if "\udc80" <= character <= "\udcff":      # a byte of a file's name that is no UTF-8, as it was
        return bytes([ord(character) - 0xDC00]), error.start + 1
    nearest = character.translate(PLAIN)
    known = nearest if nearest.isascii() else character.encode("unicode_escape").decode("ascii")
    return known, error.start + 1


class Outlet(io.FileIO):
    """File descriptor for printing; after its reader has closed it, such as `head`, output is discarded."""

    _gone = False

    def write(self, data: bytes) -> int:      # type: ignore[override]
        if not self._gone:
            try:
                return super().write(data)
            except OSError as error:
                self._gone = True             # a full disk is reported once, not again at exit
                if not isinstance(error, BrokenPipeError):
                    raise
        return memoryview(data).nbytes


def prepare_streams() -> None:
    """Replace both standard streams by outlets, unless other code has replaced them already."""
    codecs.register_error("netsim-plain", plain)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream: TextIO | None = getattr(sys, name)
        if stream is None:                    # closed before the program started
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))      # noqa: SIM115
        elif stream is getattr(sys, f"__{name}__"):
            stream.flush()
            setattr(sys, name, io.TextIOWrapper(
                io.BufferedWriter(Outlet(number, "w", closefd=False)), encoding=stream.encoding, errors="netsim-plain",
                line_buffering=getattr(stream, "line_buffering", False) or name == "stderr",
                write_through=getattr(stream, "write_through", False)))

"""Output of an app: its text goes to standard error, and Flower's log is shown or kept."""

from __future__ import annotations

import logging
import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

MOST_LINES = 2_000         # of Flower's log that are kept


class KeptLog(logging.Handler):
    """Last lines of Flower's log below warnings, which are printed only if the app reports in no other way."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: deque[str] = deque(maxlen=MOST_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < logging.WARNING:
            self._lines.append(record.getMessage())

    def show(self) -> None:
        for line in self._lines:
            print(line, file=sys.stderr)
        self._lines.clear()


@contextmanager
def app_output(*, verbose: bool) -> Iterator[KeptLog]:
    """Redirect the app's output to standard error inside the block; without ``verbose``, keep Flower's log."""
    logger, kept = logging.getLogger("flwr"), KeptLog()
    shown = [] if verbose else [(handler, handler.level) for handler in logger.handlers]
    for handler, _ in shown:
        handler.setLevel(logging.WARNING)
    if not verbose:
        logger.addHandler(kept)
    sys.stdout.flush()
    output = os.dup(1)
    os.dup2(2, 1)                  # for libraries and processes of the app, which do not use sys.stdout
    try:
        with redirect_stdout(sys.stderr):
            yield kept
    finally:
        os.dup2(output, 1)
        os.close(output)
        logger.removeHandler(kept)
        for handler, level in shown:
            handler.setLevel(level)

"""Command line of netsim. Slow imports are inside the commands that use them."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import NoReturn

from netsim.base.errors import InputError, WorkerError, readable
from netsim.base.platform_info import fewer_collections
from netsim.cli.app import INPUT_AT_FAULT, SOME_FAILED, app
from netsim.cli.standard_streams import prepare_streams

__all__ = ["app", "main"]

# in the order of the help page
for group in ("run", "inspect", "scenarios", "experiments", "calibration", "lab"):
    import_module(f"netsim.cli.{group}")


def main() -> None:
    """Run the command line; input errors end with one message and exit code 2."""
    prepare_streams()
    try:
        try:
            with fewer_collections():      # of what imports create, and keep
                app()
        finally:
            sys.stdout.flush()
    except InputError as error:
        _end(str(error))
    except WorkerError as error:
        _end(f"{error}; finished work is kept; resume an interrupted run with --resume", SOME_FAILED)
    except MemoryError as error:
        what = f" ({error})" if str(error) else ""
        _end(f"out of memory{what}; use fewer devices or smaller files")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _end(f"{where}{error.strerror or error}; finished work is kept; resume an interrupted run with --resume")


def _end(message: str, code: int = INPUT_AT_FAULT) -> NoReturn:
    print(f"error: {readable(message)}", file=sys.stderr)
    sys.exit(code)

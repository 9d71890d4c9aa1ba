"""The command line: parses, calls, prints. Heavy modules are imported inside the commands that use them."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from netsim.base.errors import InputError, WorkerError
from netsim.cli.app import INPUT_AT_FAULT, SOME_FAILED, app

__all__ = ["app", "main"]

for group in ("simulating", "looking", "describing", "experimenting", "teaching"):      # in the order of the help page
    import_module(f"netsim.cli.{group}")


def main() -> None:
    """Run the command line; the user's mistakes end in one message and exit code 2."""
    try:
        app()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(INPUT_AT_FAULT)
    except WorkerError as error:
        print(f"error: {error}; what was complete is kept, and an interrupted run goes on with --resume",
              file=sys.stderr)
        sys.exit(SOME_FAILED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())   # the reader, e.g. `head`, has gone
        sys.exit(0)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror or error}; nothing that was complete is lost, and an interrupted run "
              "goes on with --resume", file=sys.stderr)
        sys.exit(INPUT_AT_FAULT)

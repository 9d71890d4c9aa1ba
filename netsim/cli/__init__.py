"""The command line: parses, calls, prints. Heavy modules are imported inside the commands that use them."""

from __future__ import annotations

import sys
from importlib import import_module

from netsim.base.errors import InputError, WorkerError
from netsim.cli.app import INPUT_AT_FAULT, SOME_FAILED, app
from netsim.cli.streams import prepare_streams

__all__ = ["app", "main"]

for group in ("simulating", "looking", "describing", "experimenting", "teaching"):      # in the order of the help page
    import_module(f"netsim.cli.{group}")


def main() -> None:
    """Run the command line; the user's mistakes end in one message and exit code 2."""
    prepare_streams()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(INPUT_AT_FAULT)
    except WorkerError as error:
        print(f"error: {error}; what was complete is kept, and an interrupted run goes on with --resume",
              file=sys.stderr)
        sys.exit(SOME_FAILED)
    except MemoryError as error:
        what = f" ({error})" if str(error) else ""
        print(f"error: not enough memory for this{what}; take fewer devices, or smaller files", file=sys.stderr)
        sys.exit(INPUT_AT_FAULT)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror or error}; nothing that was complete is lost, and an interrupted run "
              "goes on with --resume", file=sys.stderr)
        sys.exit(INPUT_AT_FAULT)

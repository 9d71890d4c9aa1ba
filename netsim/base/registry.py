"""Finding users' code by import path, among what is installed only."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from netsim.base.errors import InputError


def installed_object(path: str, what: str) -> Any:
    """The object that ``"package.module:Name"`` names; importing runs the module, so only installed code is found."""
    module_name, _, name = path.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), name]):
        raise InputError(f'{what} "{path}" is not of the form "package.module:Name"')
    if any(part.startswith("_") for part in module_name.split(".")):      # importing __main__ is running a program
        raise InputError(f'{what} "{path}": {module_name} is private; name a public module')
    try:
        with _installed_code_only():
            module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise InputError(
            f'{what} "{path}": cannot import {module_name} ({error}); it must be installed (pip install …) '
            "or lie on PYTHONPATH"
        ) from error
    if not hasattr(module, name):
        raise InputError(f'{what} "{path}": {module_name} has no {name}')
    return getattr(module, name)


@contextmanager
def _installed_code_only() -> Iterator[None]:
    """Hides the current directory from imports, unless PYTHONPATH names it."""
    chosen = {Path(entry).resolve() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    here = Path.cwd().resolve()
    before = list(sys.path)
    sys.path[:] = [entry for entry in before if entry and (Path(entry).resolve() != here or here in chosen)]
    try:
        yield
    finally:
        sys.path[:] = before

"""Import of user code by path: installed code only, and for a scenario only packages made for netsim.

Importing a module runs it, so a scenario that names ``"package.module:Name"`` could run anything that is installed. It
gets what belongs to a package made for netsim: one whose distribution lists netsim among its requirements, or has an
entry point in the group ``netsim``. Everything else the user has to allow. Nothing is imported to find out.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, distributions, packages_distributions
from pathlib import Path
from pkgutil import get_importer
from typing import Any
from urllib.parse import unquote, urlparse

from netsim.base.errors import InputError, quoted

US = "netsim"
MADE_FOR = "code made for netsim"
HOW = "If you trust it, allow it with --allow-import (in Python, allow_import=True)"


def installed_object(path: str, key: str) -> Any:
    """The object that ``"package.module:Name"`` names; importing runs the module, so only installed code is found."""
    module_name, name = _parts(path, key)
    try:
        if (module := sys.modules.get(module_name)) is None:
            with _installed_code_only():
                module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise InputError("import-failed", key, quoted(path), hint=f"{module_name}: {error}. {INSTALL}") from error
    if not hasattr(module, name):
        raise InputError("import-failed", key, quoted(path), hint=f"{module_name} has no {name}")
    return getattr(module, name)


INSTALL = "It must be installed (pip install …) or lie on PYTHONPATH"


def check_made_for_netsim(path: str, key: str) -> None:
    """Raise :class:`InputError` unless all code that importing ``"package.module:Name"`` runs is made for netsim."""
    module, _ = _parts(path, key)
    top = module.partition(".")[0]
    if top == US:
        return
    if top in sys.stdlib_module_names:
        raise InputError("import-refused", key, quoted(path), MADE_FOR, f"{top} is a part of Python. {HOW}")
    folders = _installed_folders()
    ours = [distribution for distribution in distributions(path=folders) if _made_for_netsim(distribution)]
    for name, file in _files_run(module, folders, path, key):
        if file is None or not any(_holds(distribution, file, top) for distribution in ours):
            raise InputError("import-refused", key, quoted(path), MADE_FOR,
                             f"{_stranger(name, file, top, ours)}. {HOW}")


def _parts(path: str, key: str) -> tuple[str, str]:
    module_name, _, name = path.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), name]):
        raise InputError("malformed", key, quoted(path), 'the form "package.module:Name"')
    if any(part.startswith("_") for part in module_name.split(".")):      # importing __main__ is running a program
        raise InputError("import-refused", key, quoted(path), "a public module", f"{module_name} is private")
    return module_name, name


def _installed_folders() -> list[str]:
    """Return the folders of ``sys.path`` without the current directory, unless PYTHONPATH names it."""
    chosen = {Path(entry).resolve() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    here = Path.cwd().resolve()
    return [entry for entry in sys.path if entry and (Path(entry).resolve() != here or here in chosen)]


@contextmanager
def _installed_code_only() -> Iterator[None]:
    """Hide the current directory from imports, unless PYTHONPATH names it."""
    before = list(sys.path)
    sys.path[:] = _installed_folders()
    try:
        yield
    finally:
        sys.path[:] = before


def _files_run(module: str, folders: Sequence[str], path: str, key: str) -> Iterator[tuple[str, Path | None]]:
    """Yield the parent packages of a module and the module itself, with the file that importing each runs, if any.

    ``folders`` are searched in place of ``sys.path``, which other threads may change (those of marimo add to it).
    A folder without ``__init__.py`` runs nothing. Imported modules are taken from sys.modules: importing
    them again would return the same.
    """
    search: Any = None
    steps = module.split(".")
    for count in range(1, len(steps) + 1):
        name = ".".join(steps[:count])
        there = sys.modules.get(name)
        spec = getattr(there, "__spec__", None) if there else _spec(name, search, folders)
        if there is None and spec is None:
            raise InputError("import-failed", key, quoted(path), hint=f"There is no {name}. {INSTALL}")
        search = getattr(there, "__path__", None) if there else spec and spec.submodule_search_locations
        file = getattr(there, "__file__", None) or (spec.origin if spec and spec.has_location else None)
        if file is not None or search is None or count == len(steps):
            yield name, Path(file).resolve() if file else None
        if search is None and count < len(steps):
            raise InputError("import-failed", key, quoted(path), hint=f"{name} is no package. {INSTALL}")


def _spec(name: str, search: Any, folders: Sequence[str]) -> ModuleSpec | None:
    """Find the spec of a module; unlike ``importlib.util.find_spec`` this never imports the parent package."""
    for finder in sys.meta_path:
        if finder is PathFinder:
            spec = _spec_below(name, folders if search is None else search)
        else:
            find = getattr(finder, "find_spec", None)
            spec = find(name, search, None) if find else None
        if spec is not None:
            return spec
    return None


def _spec_below(name: str, folders: Iterable[str]) -> ModuleSpec | None:
    """A module in the folders of a package; Python's own search wants the package around a namespace to be imported."""
    portions: list[str] = []
    for folder in folders:
        finder: Any = get_importer(folder)
        spec: ModuleSpec | None = finder.find_spec(name) if finder else None
        if spec is not None and spec.loader is not None:
            return spec
        portions += (spec.submodule_search_locations or []) if spec else []
    namespace = ModuleSpec(name, None, is_package=True)
    namespace.submodule_search_locations = portions
    return namespace if portions else None


def _made_for_netsim(distribution: Distribution) -> bool:
    """Return True if netsim is among its requirements, or it has an entry point for netsim."""
    try:
        if _plain(distribution.name) == US:
            return False      # an editable netsim would answer for everything that lies in its folder
        names = [re.match(r"[\w.-]+", requirement) for requirement in distribution.requires or ()]
        return (any(name is not None and _plain(name[0]) == US for name in names)
                or any(entry.group == US for entry in distribution.entry_points))
    except Exception:      # what pip has left half removed says nothing for itself
        return False


def _plain(name: str | None) -> str:
    return re.sub(r"[-_.]+", "-", name or "").lower()


def _holds(distribution: Distribution, file: Path, top: str) -> bool:
    """Return True if the file belongs to the distribution, or to the folder of its editable installation."""
    if any(entry.name == file.name and Path(str(distribution.locate_file(entry))).resolve() == file
           for entry in distribution.files or ()):
        return True
    folder = _editable_folder(distribution)
    return folder is not None and any(
        file.is_relative_to(root) and file.relative_to(root).parts[0] in (top, f"{top}.py")
        for root in (folder, folder / "src"))


def _editable_folder(distribution: Distribution) -> Path | None:
    """Return the source folder of an editable installation."""
    text = distribution.read_text("direct_url.json")
    with suppress(ValueError, KeyError, AttributeError):      # written by other tools than pip too
        origin = json.loads(text or "{}")
        if origin.get("dir_info", {}).get("editable"):
            return Path(unquote(urlparse(origin["url"]).path)).resolve()
    return None


def _stranger(name: str, file: Path | None, top: str, ours: list[Distribution]) -> str:
    """Explain why a module does not count as made for netsim."""
    owners: list[str] = []
    with suppress(Exception):      # as above
        owners = sorted(set(packages_distributions().get(top, ())))
    made = [owner for owner in owners if _plain(owner) in {_plain(distribution.name) for distribution in ours}]
    if made:
        return f"{name} would come from {file or 'nowhere'}, which is no file of the package {made[0]}"
    if owners:
        return (f"The package {owners[0]} is not made for netsim (netsim is not among its requirements, and it has no "
                f"entry point in the group {US})")
    return f"{name} ({file or 'without a file'}) belongs to no installed package"

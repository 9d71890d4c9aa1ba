"""A Flower app as it lies in its folder: what its pyproject.toml names, and how that is loaded.

The app is the user's own code, and is run on purpose: unlike a scenario, which never runs code on its own.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tomllib
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module, invalidate_caches
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from netsim.base.errors import InputError, one_of
from netsim.base.files import read_toml

PLAIN = str | int | float | bool
TABLE = "[tool.flwr.app.components]"


@dataclass(frozen=True)
class FlowerApp:
    """What an app's pyproject.toml says."""

    folder: Path
    name: str
    components: Mapping[str, str]   # "serverapp" and "clientapp", as "package.module:name"
    config: Mapping[str, PLAIN]     # of a run, by dotted names
    wants_torch: bool               # whether torch is among its requirements

    @property
    def digest(self) -> str:
        """Of the configuration, and of the Python files in the folder."""
        found = hashlib.sha256(json.dumps(list(self.config.items())).encode())
        for file in sorted(self.folder.rglob("*.py")):
            if self.holds(file) and file.is_file():
                found.update(file.relative_to(self.folder).as_posix().encode() + b"\0" + file.read_bytes())
        return found.hexdigest()

    def holds(self, file: str | Path) -> bool:
        """Whether a file is of the app itself, and not of an environment that was made in its folder."""
        path = Path(file)
        if not path.is_relative_to(self.folder):
            return False
        return not any(part.startswith(".") or part == "site-packages" for part in path.relative_to(self.folder).parts)


def read_app(folder: Path, changes: Sequence[str] = ()) -> FlowerApp:
    """The app in a folder; ``changes`` are KEY=VALUE of its run configuration."""
    file = folder / "pyproject.toml"
    if not folder.is_dir():
        raise InputError("no-such-file", str(folder), expected="the folder of a Flower app, with a pyproject.toml")
    if not file.is_file():
        raise InputError("no-such-file", str(file),
                         hint=f"A Flower app's pyproject.toml names its serverapp and clientapp under {TABLE}")
    told = read_toml(file, "a Flower app's pyproject.toml")
    project, app = _table(told, "project"), _table(told, "tool", "flwr", "app")
    needs = project.get("dependencies", [])
    return FlowerApp(
        folder.resolve(), str(project.get("name", folder.resolve().name)),
        {kind: _component(file, app, kind) for kind in ("serverapp", "clientapp")},
        _changed(file, _flat(app.get("config", {})), changes),
        any(str(need).lower().startswith("torch") for need in (needs if isinstance(needs, list) else [])))


def _table(told: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """A table inside others; empty where there is none."""
    for name in names:
        found = told.get(name)
        told = found if isinstance(found, Mapping) else {}
    return told


def _component(file: Path, app: Mapping[str, Any], kind: str) -> str:
    given = _table(app, "components").get(kind)
    if given is None:
        raise InputError("missing", f"{file}: {kind}", expected=f'a line such as {kind} = "app.module:app" in {TABLE}')
    module, _, name = given.partition(":") if isinstance(given, str) else ("", "", "")
    if not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise InputError("malformed", f"{file}: {kind}", repr(given), '"package.module:name"')
    return str(given)


def _flat(config: Any, before: str = "") -> dict[str, PLAIN]:
    """Tables inside tables by dotted names, as Flower hands them to an app."""
    flat: dict[str, PLAIN] = {}
    for name, value in config.items() if isinstance(config, Mapping) else ():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{before}{name}.")
        elif isinstance(value, str | int | float | bool):
            flat[f"{before}{name}"] = value
        else:
            raise InputError("wrong-type", f"tool.flwr.app.config.{before}{name}", repr(value),
                             "text, a number, true or false")
    return flat


def _changed(file: Path, config: dict[str, PLAIN], changes: Sequence[str]) -> dict[str, PLAIN]:
    for change in changes:
        name, equals, text = (part.strip() for part in change.partition("="))
        if not equals or name not in config:
            raise InputError("unknown-key", "--run-config", change, f"KEY=VALUE with a key of {file}",
                             one_of(name, config))
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text                                  # a word needs no quotes
        kind = type(config[name])
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise InputError("wrong-type", f"--run-config {name}", text, f"{kind.__name__}, as in {file}")
        config[name] = value
    return config


@contextmanager
def importable(app: FlowerApp) -> Iterator[None]:
    """Meanwhile modules are found in an app's folder first; afterwards they are forgotten, for another app's sake."""
    before = list(sys.path)
    sys.path.insert(0, str(app.folder))
    invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if file and app.holds(file):
                del sys.modules[name]


def load_component(app: FlowerApp, kind: str) -> Any:
    """The app's "serverapp" or "clientapp"; InputError where it does not import or is something else."""
    reference = app.components[kind]
    where = f'{app.folder / "pyproject.toml"}: {kind} = "{reference}"'
    try:
        found = resolve_name(reference)
    except (Exception, SystemExit) as error:
        raise InputError("import-failed", where, told_of(error, app)) from None
    name = {"serverapp": "ServerApp", "clientapp": "ClientApp"}[kind]
    if not isinstance(found, getattr(import_module(f"flwr.{kind}"), name)):
        raise InputError("wrong-interface", where, type(found).__name__, f"a {name}")
    return found


def told_of(error: BaseException, app: FlowerApp) -> str:
    """An error of the app's code in a few words: what, and the last line of the app that it came by."""
    places = [frame for frame in traceback.extract_tb(error.__traceback__) if app.holds(frame.filename)]
    at = f" ({Path(places[-1].filename).relative_to(app.folder)}, line {places[-1].lineno})" if places else ""
    return f"{type(error).__name__}: {' '.join(str(error).split()) or 'no message'}{at}"

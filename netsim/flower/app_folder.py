"""Flower app in a folder: its pyproject.toml, and the import of its components.

The app is the user's code and is run on request, unlike a scenario, which never runs code by itself.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module, invalidate_caches
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from netsim.base.errors import InputError, suggest
from netsim.base.files import read_toml
from netsim.base.options import toml_value

PLAIN = str | int | float | bool
TABLE = "[tool.flwr.app.components]"
PAIR = r"""[\w.-]+\s*=\s*(?:"[^"]*"|'[^']*'|\S+)"""      # a key and its value, which may have spaces in quotes
PRELOADED = ("numpy", "torch")


@dataclass(frozen=True)
class FlowerApp:
    """Settings of an app, from its pyproject.toml."""

    folder: Path
    name: str
    components: Mapping[str, str]   # "serverapp" and "clientapp", as "package.module:name"
    config: Mapping[str, PLAIN]     # run configuration, by dotted names
    preloaded: tuple[str, ...]      # dependencies to import before the app
    nodes: int | None               # num-supernodes of its default federation
    files_sha256: str | None = None      # on a cluster: of the app's files, which every worker gets

    @property
    def digest(self) -> str:
        """Hash of the configuration and of the Python files in the folder."""
        found = hashlib.sha256(json.dumps(list(self.config.items())).encode())
        for file in sorted(self.folder.rglob("*.py")):
            if self.holds(file) and file.is_file():
                found.update(file.relative_to(self.folder).as_posix().encode() + b"\0" + file.read_bytes())
        return found.hexdigest()

    def holds(self, file: str | Path) -> bool:
        """Return whether a file belongs to the app, and not to a virtual environment in its folder."""
        path = Path(file)
        if not path.is_relative_to(self.folder):
            return False
        return not any(part.startswith(".") or part == "site-packages" for part in path.relative_to(self.folder).parts)


def read_app(folder: Path, changes: Sequence[str] = ()) -> FlowerApp:
    """Read the app in a folder; ``changes`` override keys of its run configuration, each as KEY=VALUE."""
    file = folder / "pyproject.toml"
    if not folder.is_dir():
        raise InputError("no-such-file", str(folder), expected="the folder of a Flower app, with a pyproject.toml")
    if not file.is_file():
        raise InputError("no-such-file", str(file),
                         hint=f"A Flower app's pyproject.toml names its serverapp and clientapp under {TABLE}")
    content = read_toml(file, "a Flower app's pyproject.toml")
    project, app = _table(content, "project"), _table(content, "tool", "flwr", "app")
    if not _table(app, "components") and ("poetry" in _table(content, "tool") or (folder / "conf").is_dir()):
        raise InputError("missing", f"{file}: {TABLE}", "a baseline of the Poetry and hydra generation",
                         "an app with a ServerApp and a ClientApp", "Its own main program starts Flower's engine; "
                         "port it with `flwr new`")
    needs = project.get("dependencies", [])
    listed = [str(need).lower() for need in needs] if isinstance(needs, list) else []
    return FlowerApp(
        folder.resolve(), str(project.get("name", folder.resolve().name)),
        {kind: _component(file, app, kind) for kind in ("serverapp", "clientapp")},
        _changed(file, _flat(app.get("config", {})), changes),
        tuple(name for name in PRELOADED if find_spec(name) is not None
              and any(re.match(rf"{name}\b(?!-)", need) for need in listed)),
        _nodes(_table(content, "tool", "flwr", "federations")))


def _nodes(federations: Mapping[str, Any]) -> int | None:
    """Return the number of nodes of the default federation, in the notation of Flower before 1.26."""
    default = federations.get("default")
    found = _table(federations, default if isinstance(default, str) else "", "options").get("num-supernodes")
    return found if type(found) is int and found > 0 else None


def _table(table: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return a nested table; empty if it is missing."""
    for name in names:
        found = table.get(name)
        table = found if isinstance(found, Mapping) else {}
    return table


def _component(file: Path, app: Mapping[str, Any], kind: str) -> str:
    given = _table(app, "components").get(kind)
    if given is None:
        raise InputError("missing", f"{file}: {kind}", expected=f'a line such as {kind} = "app.module:app" in {TABLE}')
    module, _, name = given.partition(":") if isinstance(given, str) else ("", "", "")
    if not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise InputError("malformed", f"{file}: {kind}", repr(given), '"package.module:name"')
    return str(given)


def _flat(config: Any, before: str = "") -> dict[str, PLAIN]:
    """Flatten nested tables to dotted names, as Flower passes them to an app."""
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


def nodes_in(options: str | None) -> int | None:
    """Return num-supernodes of ``--federation-config``; None without it."""
    if options is None:
        return None
    found = {name.strip(): value.strip() for name, _, value in (pair.partition("=") for pair in pairs_in([options]))}
    nodes = found.pop("num-supernodes", "")
    if not nodes.isdigit() or not int(nodes) > 0 or found:
        raise InputError("malformed", "--federation-config", options, '"num-supernodes=N"',
                         "Other options belong to Flower's engine")
    return int(nodes)


def pairs_in(changes: Sequence[str]) -> list[str]:
    """Return single changes (KEY=VALUE), of which each text may have several, or name a TOML file of them."""
    found: list[str] = []
    for change in changes:
        if change.endswith(".toml"):
            table = _flat(read_toml(Path(change), "a run configuration"))
            found += [f"{name}={json.dumps(value)}" for name, value in table.items()]
        elif re.fullmatch(rf"\s*{PAIR}(\s+{PAIR})*\s*", change):
            found += [match[0] for match in re.finditer(PAIR, change)]
        else:
            found.append(change)
    return found


def _changed(file: Path, config: dict[str, PLAIN], changes: Sequence[str]) -> dict[str, PLAIN]:
    for change in pairs_in(changes):
        name, equals, text = (part.strip() for part in change.partition("="))
        if not equals or name not in config:
            raise InputError("unknown-key", "--run-config", change, f"KEY=VALUE with a key of {file}",
                             suggest(name, config))
        value, kind = toml_value(text), type(config[name])
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise InputError("wrong-type", f"--run-config {name}", text, f"{kind.__name__}, as in {file}")
        config[name] = value
    return config


@contextmanager
def importable(app: FlowerApp) -> Iterator[None]:
    """Put the app's folder first on the module path inside the block; unload its modules afterwards."""
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
    """Import the app's "serverapp" or "clientapp"; raise InputError if that fails or the type is wrong."""
    reference = app.components[kind]
    where = f'{app.folder / "pyproject.toml"}: {kind} = "{reference}"'
    try:
        found = resolve_name(reference)
    except (Exception, SystemExit) as error:
        raise InputError("import-failed", where, describe_failure(error, app)) from None
    name = {"serverapp": "ServerApp", "clientapp": "ClientApp"}[kind]
    if not isinstance(found, getattr(import_module(f"flwr.{kind}"), name)):
        raise InputError("wrong-interface", where, type(found).__name__, f"a {name}")
    return found


def describe_failure(error: BaseException, app: FlowerApp) -> str:
    """Return type and message of an error of the app's code, and the last line of the app in its traceback."""
    places = [frame for frame in traceback.extract_tb(error.__traceback__) if app.holds(frame.filename)]
    at = f" ({Path(places[-1].filename).relative_to(app.folder)}, line {places[-1].lineno})" if places else ""
    return f"{type(error).__name__}: {' '.join(str(error).split()) or 'no message'}{at}"

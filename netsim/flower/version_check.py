"""Version check of Flower, an optional dependency, and constants of its node ids."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from netsim.base.errors import InputError

OLDEST = (1, 22)
SUPERLINK = 1              # Flower's node id of the server
RUN_ID = 1
FIRST_NODE = 1_000_000     # device 17 is node 1000017: above Flower's own ids


def require_flower() -> str:
    """Return Flower's version; raise InputError if it is missing or too old."""
    oldest = ".".join(map(str, OLDEST))
    try:
        found = version("flwr")
    except PackageNotFoundError:
        raise InputError("needs", "a Flower app", "no Flower", f"flwr {oldest} or newer",
                         "pip install 'netsim[flower]'") from None
    numbers = tuple(int(number) for number in re.findall(r"\d+", found)[:2])
    if numbers < OLDEST:
        raise InputError("needs", "a Flower app", f"flwr {found}", f"flwr {oldest} or newer",
                         "pip install --upgrade 'netsim[flower]'")
    return found


def node_of(device: int) -> int:
    return FIRST_NODE + device


def identify(node: int) -> None:
    """Set the identity of this process, which newer versions of Flower need to create messages."""
    try:
        identity: Any = import_module("flwr.supercore.task_identity").TaskIdentity
    except ImportError:
        return
    identity.run_id, identity.node_id, identity.task_id = RUN_ID, node, 1


@contextmanager
def replaced(owner: Any, **values: Any) -> Iterator[None]:
    """Replace attributes of an object, class or module inside the block."""
    before = {name: vars(owner)[name] for name in values if name in vars(owner)}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name in values:
            if name in before:
                setattr(owner, name, before[name])
            else:
                delattr(owner, name)

"""Flower apps in the cell: netsim simulates durations, bandwidth, energy and dropouts; the app's code trains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netsim.flower.in_cell import InCell
    from netsim.flower.running import run_app

__all__ = ["InCell", "run_app"]

_HOMES = {"InCell": "netsim.flower.in_cell", "run_app": "netsim.flower.running"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        from netsim.flower.library import require_flower

        require_flower()
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

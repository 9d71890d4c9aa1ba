"""Flower apps in the cell: netsim simulates durations, bandwidth, energy and dropouts; the app's code trains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netsim.flower.runner import run_app
    from netsim.flower.strategy_wrapper import InCell

__all__ = ["InCell", "run_app"]

_HOMES = {"InCell": "strategy_wrapper", "run_app": "runner"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from netsim.base.registry import load
        from netsim.flower.version_check import require_flower

        require_flower()
        return load(f"netsim.flower.{_HOMES[name]}:{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

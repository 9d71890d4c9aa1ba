"""Selection of the devices that take part in a round, by methods behind the ``Selection`` protocol.

>>> selection = make_selection("divergence", {"norm": "l1"})
>>> sorted(selection.needs)
['weights']
"""

from __future__ import annotations

from netsim.selection.method import Method
from netsim.selection.registry import METHODS, check_choice, check_state, make_selection
from netsim.selection.view import Choice, LearningView, Selection, View

__all__ = [
    "METHODS", "Choice", "LearningView", "Method", "Selection", "View", "check_choice", "check_state", "make_selection",
]

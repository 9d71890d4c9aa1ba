"""A stored run with what analysis makes of it, each made once."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from netsim.analysis.breakdown import Breakdown, break_down
from netsim.analysis.critical_path import CriticalPath, causal_graph, find_critical_path
from netsim.trace.stored_run import StoredRun

if TYPE_CHECKING:
    import networkx as nx

    from netsim.analysis.explain import Explanation


class AnalysedRun(StoredRun):
    """What happened in a run, and why it took so long."""

    def breakdown(self) -> Breakdown:
        """Where time, energy and band went: ``.rounds``, ``.devices`` and ``.shares`` are frames; ``.totals``."""
        return self._breakdown

    def critical_path(self, round: int | None = None) -> CriticalPath:
        """What set the run's length, or a round's: ``.steps``, ``.causes`` and ``.slack`` are frames, ``.length_s``."""
        return self._critical_path if round is None else find_critical_path(self, round)

    def explain(
        self, round: int | None = None, *, allow_import: bool = False, methods: bool = True,
    ) -> Explanation:
        """Why a round took so long, and what would shorten it; by default the slowest, and the run as a whole.

        ``.binding`` are the limits that hold it up, ``.what_if`` the changes, the largest saving first;
        ``methods=False`` leaves out other allocation methods, some of which take long to plan.
        """
        from netsim.analysis.explain import explain  # plans, and so scipy

        return explain(self, round, allow_import=allow_import, methods=methods)

    @cached_property
    def _breakdown(self) -> Breakdown:
        return break_down(self)

    @cached_property
    def _critical_path(self) -> CriticalPath:
        return find_critical_path(self)

    def graph(self, round: int | None = None) -> nx.DiGraph:
        """The links of the run, or of one round, as a networkx graph; its longest path is as long as the run."""
        return causal_graph(self, round)

"""One run of a scenario: a server, what it selects by and what learns, on the stage of its cell."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.base.errors import InputError, WorkerError, YourCodeError
from netsim.base.files import folder_for
from netsim.learning.protocol import Learning, NoLearning
from netsim.prepare import check_arguments, check_layers, prepare, with_own
from netsim.run import Run
from netsim.selection import Selection
from netsim.server import SERVERS, strategy_of
from netsim.server.selector import Selector
from netsim.server.server import RunProgress, Server
from netsim.stage import Stage, journal_of, open_stage

if TYPE_CHECKING:
    from netsim.learning.shared import InCommon
    from netsim.scenario import Scenario


def simulate(
    scenario: Scenario | Mapping[str, Any] | Path | str, out: Path | str | None = None, seed: int = 0, *,
    learning: bool = True, workers: int | None = None, resume: bool = False,
    progress: Callable[[RunProgress], None] | None = None, shared: InCommon | None = None,
    allow_import: bool = False, **own: Any,
) -> Run:
    """Simulate a scenario and return its run.

    ``scenario`` may be the name or the path of one, or a dict of its tables. ``out`` is the run's folder (without one,
    the run lives as long as the object returned). ``workers`` is how many processes train devices (default: one for
    each core); it changes nothing but the speed. ``resume`` goes on with the run that lies in ``out``, if one does.
    ``learning=False`` plays the rounds without training. ``shared`` is a folder for many runs: what they have in common
    is trained once. ``allow_import`` lets the scenario name code of packages that are not made for netsim. ``own`` are
    functions and classes of this Python session in the place of what the scenario names: ``allocation``, ``selection``,
    ``model``, ``dataset``, ``channel``; a run with such cannot be resumed.
    """
    check_arguments(own, seed=seed, workers=workers, resume=resume, out=out, learning=learning, progress=progress)
    with with_own(scenario, own) as whole:
        trains = learning and whole.trains
        selection = prepare(whole, learning=trains, allow_import=allow_import)
        if whole.flower is not None:
            raise InputError("no-effect", "flower", hint="Remove the table, or run a Flower app with `netsim flower`")
        selector = Selector(whole.selection.method, selection, seed)
        path, keep = folder_for(out)

        def learns() -> AbstractContextManager[Learning]:
            return (open_learning(whole, seed, selection, path, workers, shared) if trains
                    else nullcontext(NoLearning.of(whole, seed)))

        with open_stage(whole, journal_of(path, whole, seed, learning=trains), seed, learning=learns,
                        selector=selector, begun="resume" if resume else "refuse") as stage:
            stage.progress = progress
            serve(stage, selector)
        return Run(path, keep)


def serve(stage: Stage, selector: Selector) -> None:
    """Let the server of the stage's scenario play its rounds to the end of the run."""
    scenario, strategy = stage.scenario, strategy_of(stage.scenario)
    server: Server = strategy.loop(stage.context(selector), strategy)
    if not server.ended():
        stage.learning.begin(scenario.size, stage.rounds.version)
    kind = scenario.server.kind if scenario.server else "synchronous"
    stage.advance(stage.env.process(server.run() if kind in SERVERS else watched(server, kind)))
    stage.finish(target_reached=server.target_reached if stage.learning.trains else None, in_rounds=True)


def watched(server: Server, kind: str) -> Generator[Any, Any, None]:
    """The process of a user's own server; an error in it is reported with the time and its line."""
    try:
        yield from server.run()
    except (InputError, WorkerError):
        raise
    except Exception as error:
        raise YourCodeError.of(f"server {kind}", error, at=server.cell.now) from None


@contextmanager
def open_learning(
    scenario: Scenario, seed: int, selection: Selection, folder: Path, workers: int | None, shared: InCommon | None,
) -> Iterator[Learning]:
    """Torch with its workers; what the scenario names has been permitted."""
    from netsim.learning.learner import open_learner
    from netsim.learning.torch_learning import TorchLearning

    with open_learner(scenario, seed, workers, shared, allow_import=True) as learner:
        check_layers(selection, learner.layers)     # now, and not when the first round is over
        yield TorchLearning(scenario, learner, folder, keeps_models="weights" in selection.needs)

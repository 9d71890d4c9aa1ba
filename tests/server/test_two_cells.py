"""Two cells in one SimPy environment, each with its own server: as if each were alone."""

from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest
import simpy

from netsim import load_scenario, simulate
from netsim.learning.backend import NoLearning
from netsim.selection import make_selection
from netsim.server import strategy_of
from netsim.server.selection_runner import SelectionRunner
from netsim.session import journal_of, open_session
from netsim.simulation import open_learning
from netsim.validation import validate

STREET = ["end.rounds=6"]
FEDBUFF = ["server.kind=fedbuff", "server.buffer=3", "allocation.sharing=equal", "end.rounds=9",
           "population.phone.battery=90mJ", "selection.cohort=8"]
DIGITS = ["learning.dataset=digits", "learning.model=fashion-cnn", "learning.target_accuracy=1.0", "end.rounds=3",
          "selection.method=fedavg", "rounds.first=cohort"]


def begin(stack, env, scenario, seed, path, *, learning):
    """A cell in this environment, and the process of its server."""
    selection = make_selection(scenario.selection.method, scenario.selection.options)
    selector = SelectionRunner(scenario.selection.method, selection, seed)
    learns = ((lambda: open_learning(scenario, seed, selection, path, 1, None)) if learning
              else (lambda: nullcontext(NoLearning.of(scenario, seed))))
    stage = stack.enter_context(open_session(
        scenario, journal_of(path, scenario, seed, learning=learning), seed, learning=learns, selector=selector,
        env=env))
    strategy = strategy_of(scenario)
    loop = strategy.loop(stage.context(), strategy)
    stage.learning.begin(scenario.size, 0)
    return stage, loop, env.process(loop.run())


def traces(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((path / "trace").glob("*.parquet"))}


@pytest.mark.parametrize("cells", [
    (("street", STREET, False), ("lab", FEDBUFF, False)), (("lab", FEDBUFF, False), ("tiny", DIGITS, True)),
], ids=["a street and fedbuff", "fedbuff and learning"])
@pytest.mark.slow
def test_two_cells_in_one_environment_leave_the_traces_of_two_runs(cells, tmp_path):
    with ExitStack() as stack:
        env, played = simpy.Environment(), []
        for number, (name, changes, learning) in enumerate(cells):
            scenario = load_scenario(name, changes)
            validate(scenario, learning=learning)
            played.append(begin(stack, env, scenario, 3 + number, tmp_path / f"together{number}", learning=learning))
        env.run(until=env.all_of([process for *_, process in played]))
        for stage, loop, _ in played:
            stage.finish(target_reached=loop.target_reached if stage.learning.trains else None, in_rounds=True)
    for number, (name, changes, learning) in enumerate(cells):
        alone = simulate(load_scenario(name, changes), tmp_path / f"alone{number}", 3 + number, learning=learning,
                         workers=1)
        assert traces(tmp_path / f"together{number}") == traces(alone.path)
        assert alone.summary["rounds"] > 1


def test_the_clocks_of_two_cells_are_one(tmp_path):
    with ExitStack() as stack:
        env = simpy.Environment()
        stages = [begin(stack, env, load_scenario("tiny"), seed, tmp_path / str(seed), learning=False)[0]
                  for seed in (1, 2)]
        env.run(until=0.01)
        assert {stage.rounds.cell.now for stage in stages} == {0.01}
        assert all(stage.rounds.cell.running for stage in stages)

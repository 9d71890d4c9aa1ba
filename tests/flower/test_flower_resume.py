"""A run that was interrupted goes on to the same bytes, and nobody is trained twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from refused import refused
from small_apps import CLIENT, SERVER, tiny, write_app

from netsim.flower import run_app

pytestmark = pytest.mark.slow      # apps in worker processes

FEDBUFF = Path(__file__).parent.parent.parent / "examples" / "flower-fedbuff"
COUNTED = CLIENT.replace("    trained = fit", """    with open(__file__ + ".count", "a") as file:
        file.write("x")
    trained = fit""")


class Interrupted(KeyboardInterrupt):
    pass


def interrupt_after(rounds: int):
    def progress(at):
        if at.round == rounds:
            raise Interrupted

    return progress


def files(folder: Path) -> dict[str, bytes]:
    """All that a run leaves, but for the summary, which says where it lies, and run.json, which has its checksum."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name not in ("summary.json", "run.json")}


@pytest.mark.parametrize("kind", ["rounds", "as they come"])
def test_a_run_goes_on_to_the_same_bytes(tmp_path, kind):
    app = write_app(tmp_path / "app", client_app=COUNTED) if kind == "rounds" else FEDBUFF
    config = ["num-server-rounds=4"] if kind == "rounds" else ["concurrency=3", "num-updates=4", "buffer=2"]
    whole = run_app(app, tiny(), tmp_path / "whole", workers=2, run_config=config)
    with pytest.raises(Interrupted):
        run_app(app, tiny(), tmp_path / "broken", workers=2, run_config=config, progress=interrupt_after(2))
    assert (tmp_path / "broken" / "answers").is_dir()
    went_on = run_app(app, tiny(), tmp_path / "broken", workers=1, run_config=config, resume=True)
    assert went_on.summary["trace_sha256"] == whole.summary["trace_sha256"]
    assert files(tmp_path / "broken") == files(tmp_path / "whole")
    if kind == "rounds":       # twice 4 rounds of 5; the third round was trained before the second was closed
        assert len(Path(tmp_path / "app" / "quickstart" / "client_app.py.count").read_text()) == 40


def test_a_finished_run_is_left_as_it_is(tmp_path):
    app = write_app(tmp_path / "app")
    run_app(app, tiny(), tmp_path / "run", workers=1)
    before = files(tmp_path / "run")
    assert run_app(app, tiny(), tmp_path / "run", workers=1, resume=True).summary["rounds"] == 3
    assert files(tmp_path / "run") == before
    with refused("other-run", str(tmp_path / "run")):
        run_app(app, tiny(), tmp_path / "run", seed=1, workers=1, resume=True)


def test_another_app_or_seed_is_another_run(tmp_path):
    app = write_app(tmp_path / "app")
    with pytest.raises(Interrupted):
        run_app(app, tiny(), tmp_path / "run", workers=1, progress=interrupt_after(1))
    with refused("other-run", str(tmp_path / "run")):
        run_app(app, tiny(), tmp_path / "run", seed=1, workers=1, resume=True)
    write_app(tmp_path / "app", client_app=COUNTED)
    with refused("other-run", str(tmp_path / "run")):
        run_app(app, tiny(), tmp_path / "run", workers=1, resume=True)


def test_an_app_that_does_something_else_the_second_time_is_told_so(tmp_path):
    restless = SERVER.replace("ArrayRecord([initial()])", "ArrayRecord([np.random.default_rng().random(3119)])")
    restless = restless.replace("import json\n", "import json\n\nimport numpy as np\n")
    app = write_app(tmp_path / "app", server_app=restless)
    with pytest.raises(Interrupted):
        run_app(app, tiny(), tmp_path / "run", workers=1, progress=interrupt_after(1))
    with refused("other-run", "answers"):
        run_app(app, tiny(), tmp_path / "run", workers=1, resume=True)


def test_a_damaged_answer_is_told_so(tmp_path):
    app = write_app(tmp_path / "app")
    with pytest.raises(Interrupted):
        run_app(app, tiny(), tmp_path / "run", workers=1, progress=interrupt_after(1))
    [first, *_] = sorted((tmp_path / "run" / "answers").iterdir())
    first.write_bytes(first.read_bytes()[:-50])
    with refused("damaged", "000001.npz"):
        run_app(app, tiny(), tmp_path / "run", workers=1, resume=True)

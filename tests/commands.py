"""Commands in processes of their own, forked from one that has everything loaded already.

A command that starts from nothing spends a second or three on imports, which is no part of most tests. Here its process
has its own environment, streams, folder, limits and end as well, and `sys.argv` is all that it is told.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path

CPU_S = 60
CLOCK_S = 300


class Commands:
    """A process that forks a command whenever it is asked to."""

    def __init__(self, env: dict[str, str]) -> None:
        self._server = subprocess.Popen([sys.executable, __file__], env=env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, start_new_session=True)
        atexit.register(self.close)

    def close(self) -> None:
        os.killpg(self._server.pid, signal.SIGKILL)
        self._server.wait()

    def run(self, folder: Path, *words: str, cpu_s: int = CPU_S, most_bytes: int = resource.RLIM_INFINITY,
            packages: Path | str = "") -> subprocess.CompletedProcess[bytes]:
        """`netsim WORDS` in a folder, with limits, and with another folder of packages on its path."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        with tempfile.TemporaryDirectory() as place:
            told = [os.fsencode(word).hex() for word in (folder, place, packages, *words)]      # locales may differ
            self._server.stdin.write(json.dumps([cpu_s, most_bytes, *told]).encode() + b"\n")
            self._server.stdin.flush()
            assert select.select([self._server.stdout], [], [], CLOCK_S)[0], f"netsim {words} does not end"
            code = int(self._server.stdout.readline())
            out, err = ((Path(place) / name).read_bytes() for name in ("out", "err"))
        return subprocess.CompletedProcess(words, code, out, err)


@cache
def commands(**env: str) -> Commands:
    """Those of one environment, which start when they are first asked for."""
    kept = {name: value for name, value in os.environ.items()
            if not env or not name.startswith(("LC_", "LANG", "PYTHON"))}
    return Commands({**kept, **env})


def serve(main: Callable[[], None]) -> None:
    """Fork for every line on standard input, and be the command there."""
    for line in iter(sys.stdin.buffer.readline, b""):
        child = os.fork()
        if child == 0:
            become(*json.loads(line))
            os._exit(ended(main))      # at once: there is much to take down
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def ended(main: Callable[[], None]) -> int:
    """The exit code of a program."""
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stderr.flush()
    return 0


def become(cpu_s: int, most_bytes: int, *told: str) -> None:
    """Make this process what a shell would have started."""
    folder, place, packages, *words = (os.fsdecode(bytes.fromhex(word)) for word in told)
    os.chdir(folder)
    for number, name, flags in ((0, os.devnull, os.O_RDONLY), (1, f"{place}/out", os.O_WRONLY | os.O_CREAT),
                                (2, f"{place}/err", os.O_WRONLY | os.O_CREAT)):
        opened = os.open(name, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    if packages:
        os.environ["PYTHONPATH"] = packages
        sys.path.insert(0, packages)
    sys.argv = ["netsim", *words]


if __name__ == "__main__":
    del sys.path[0]      # the folder of the tests, which a command does not know
    import matplotlib.pyplot  # noqa: F401
    import sklearn.datasets  # noqa: F401

    import netsim.simulation
    import netsim.sweep.sweep  # noqa: F401
    from netsim.cli import main
    from netsim.learning.local_training import open_trainer  # noqa: F401

    gc.freeze()      # so that collecting does not copy every page into every command
    serve(main)

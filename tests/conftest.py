"""What all tests share."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

# Tests run a process a core already, and their models are tiny: threads of torch would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import typer.main
from hypothesis import settings
from small_worlds import World

from netsim.cli import main

settings.register_profile("any machine", deadline=None)      # one that is busy has done nothing wrong
settings.load_profile("any machine")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:      # what a script starts in its background is deaf to Ctrl-C,
    signal.signal(signal.SIGINT, signal.default_int_handler)      # and so is all that it starts: tests press it

MEMORY = Path("/dev/shm")
ROOM_BYTES = 1 << 30


def pytest_configure(config: pytest.Config) -> None:
    """Put temporary folders into memory where there is room: a disk is no part of the tests.

    This comes before xdist gives its workers their folders.
    """
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM_BYTES:
        tempfile.tempdir = str(MEMORY)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run files with slow tests first, so that at the end workers share many short tests and none idles."""
    slow = {item.path for item in items if item.get_closest_marker("slow") or item.get_closest_marker("extended")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(autouse=True, scope="session")
def quick_commands() -> None:
    """A command in the tests' own process is put together from its options once, and not before every call."""
    typer.main.get_command = cache(typer.main.get_command)


@pytest.fixture
def netsim(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path,
) -> Callable[..., tuple[object, str, str]]:
    """Run a command in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["netsim", *map(str, words)])
        code: object = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run

"""What all tests share."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

# Tests run a process a core already, and their models are tiny: threads of torch would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import typer.main
from small_worlds import World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(autouse=True, scope="session")
def quick_temporary_folders() -> None:
    """Runs without a folder of their own flush to memory where there is such a place: a disk is no part of the test."""
    memory = Path("/dev/shm")
    if os.access(memory, os.W_OK):
        tempfile.tempdir = str(memory)


@pytest.fixture(autouse=True, scope="session")
def quick_commands() -> None:
    """A command in the tests' own process is put together from its options once, and not before every call."""
    typer.main.get_command = cache(typer.main.get_command)

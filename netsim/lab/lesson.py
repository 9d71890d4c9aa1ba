"""What a lesson knows about itself: its place among the others, its aim, what to show, and what to try."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

Positions = Mapping[str, "str | float"]      # where controls stand, by their labels


@dataclass(frozen=True)
class Step:
    """Something to show: controls moved from where they stand at first, and what to point out (Markdown)."""

    moves: Positions
    point: str


@dataclass(frozen=True)
class Exercise:
    """Something to reach with the controls (Markdown), and one way to reach it."""

    text: str
    solution: Positions


@dataclass(frozen=True)
class Condition:
    """Part of what an exercise asks for, whether it is met, and how things stand, with a unit."""

    text: str
    met: bool
    now: str


@dataclass(frozen=True)
class Lesson:
    """What stands at its top and on the teacher's sheet, which runs the lesson for the figures."""

    number: int
    minutes: int
    aim: str
    steps: tuple[Step, ...]
    exercise: Exercise
    leads: str                   # to the next lesson, or on from the last

    @property
    def title(self) -> str:
        return titles()[self.number]


def folder() -> Path:
    """Where the notebooks lie."""
    return Path(str(files("netsim.lessons")))


def lessons() -> list[Path]:
    """The lessons, in their order."""
    return sorted(folder().glob("lesson_*.py"), key=lambda path: int(path.stem.split("_")[1]))


def titles() -> dict[int, str]:
    """The name of each lesson by its number, as its notebook says: ``2: "Sharing a band"``."""
    found = (re.search(r'app_title="(\d+)\. (.+?)"', path.read_text(encoding="utf-8")) for path in lessons())
    return {int(match[1]): match[2] for match in found if match}

"""What a lesson knows about itself: its place among the others, its aim, what to show, to predict, and to try."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from netsim.base.tolerances import ROUNDING

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
class Question:
    """What to predict: one of the ``choices``, or a number in a ``unit``, right if it is off by ``within`` at most.

    Texts are Markdown without formulas in LaTeX, so that they can be printed as well.
    """

    text: str
    choices: tuple[str, ...] = ()
    unit: str = ""
    within: float = 0.1          # of the right number

    def __post_init__(self) -> None:
        if bool(self.choices) == bool(self.unit) or len(self.choices) == 1:
            raise ValueError(f"a question has two choices and more, or a unit, and not both: {self.text!r}")

    def is_right(self, said: str | float, answer: Outcome) -> bool:
        """Whether what was said is what turns out."""
        if self.choices:
            return said == answer.right
        return abs(float(said) - float(answer.right)) <= self.within * abs(float(answer.right)) + ROUNDING

    def in_words(self, value: str | float) -> str:
        """A choice as it is, a number with its unit."""
        return str(value) if self.choices else f"{digits(float(value))} {self.unit}"


@dataclass(frozen=True)
class Outcome:
    """What turns out, a choice or a number as the program finds it, and why (Markdown)."""

    right: str | float
    why: str

    def checked(self, question: Question) -> Outcome:
        """The same, if it can be an answer to this question."""
        if question.choices and self.right not in question.choices:
            raise ValueError(f"{self.right!r} is none of the choices of {question.text!r}")
        if not question.choices and not math.isfinite(float(self.right)):
            raise ValueError(f"{self.right!r} is no answer to {question.text!r}")
        return self


def digits(value: float) -> str:
    """Three digits that count, never as a power of ten: 0.0123, 45.6, 1230."""
    return f"{float(f'{value:.3g}'):.10f}".rstrip("0").rstrip(".")


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

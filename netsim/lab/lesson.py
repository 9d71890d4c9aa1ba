"""Descriptions of lessons: number, aim, demonstration steps, questions and an exercise."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from netsim.base.tolerances import ROUNDING

Positions = Mapping[str, "str | float"]      # positions of controls, by their labels


@dataclass(frozen=True)
class Step:
    """A demonstration step: positions of controls, and what to point out (Markdown)."""

    moves: Positions
    point: str


@dataclass(frozen=True)
class Exercise:
    """A task for the controls (Markdown), and one solution."""

    text: str
    solution: Positions


@dataclass(frozen=True)
class Condition:
    """A condition of an exercise, whether it is met, and the current value with a unit."""

    text: str
    met: bool
    now: str


@dataclass(frozen=True)
class Question:
    """A prediction: one of the ``choices``, or a number in a ``unit``, correct within a relative error ``within``.

    Texts are Markdown without formulas in LaTeX, so that they can be printed as well.
    """

    text: str
    choices: tuple[str, ...] = ()
    unit: str = ""
    within: float = 0.1          # of the right number

    def __post_init__(self) -> None:
        if bool(self.choices) == bool(self.unit) or len(self.choices) == 1:
            raise ValueError(f"a question has two choices and more, or a unit, and not both: {self.text!r}")

    def problem(self, said: str | None) -> str | None:
        """Return what is wrong with a prediction as it was entered; None if it can be submitted."""
        if said is None or not str(said).strip():
            return "Choose first." if self.choices else "Enter a number first."
        return None if self.choices or math.isfinite(float(self.read(said))) else (
            f"“{str(said)[:20]}” is not a number; write it such as 12.5 or 12,5.")

    def read(self, said: str | float) -> str | float:
        """Return a prediction as it counts: a choice, or a number, with a decimal point or comma; NaN for no number."""
        if self.choices:
            return said
        try:
            return float(str(said).strip().removesuffix(self.unit).strip().replace(",", ".").replace("−", "-"))
        except ValueError:
            return math.nan

    def is_right(self, said: str | float, answer: Outcome) -> bool:
        if self.choices:
            return said == answer.right
        return abs(float(said) - float(answer.right)) <= self.within * abs(float(answer.right)) + ROUNDING

    def in_words(self, value: str | float) -> str:
        """Return a choice unchanged, a number with its unit."""
        return str(value) if self.choices else f"{digits(float(value))} {self.unit}"


@dataclass(frozen=True)
class Outcome:
    """The correct answer, a choice or a computed number, with an explanation (Markdown)."""

    right: str | float
    why: str

    def checked(self, question: Question) -> Outcome:
        """Return self if it is a valid answer to this question, else raise ValueError."""
        if question.choices and self.right not in question.choices:
            raise ValueError(f"{self.right!r} is none of the choices of {question.text!r}")
        if not question.choices and not math.isfinite(float(self.right)):
            raise ValueError(f"{self.right!r} is no answer to {question.text!r}")
        return self


def digits(value: float) -> str:
    """Format to three significant digits without an exponent: 0.0123, 45.6, 1230."""
    return f"{float(f'{value:.3g}'):.10f}".rstrip("0").rstrip(".")


@dataclass(frozen=True)
class Lesson:
    """A lesson, as described at its top and on the teacher's sheet."""

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
    """Return the folder of the notebooks."""
    return Path(str(files("netsim.lessons")))


def lessons() -> list[Path]:
    return sorted(folder().glob("lesson_*.py"), key=lambda path: int(path.stem.split("_")[1]))


def titles() -> dict[int, str]:
    """Return the title of each lesson by its number, read from its notebook: ``2: "Sharing a band"``."""
    found = (re.search(r'app_title="(\d+)\. (.+?)"', path.read_text(encoding="utf-8")) for path in lessons())
    return {int(match[1]): match[2] for match in found if match}

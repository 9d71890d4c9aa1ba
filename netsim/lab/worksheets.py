"""Sheets to print: all lessons with figures and answers, for the teacher, and with room to write, for students.

Every figure is what a lesson says when its controls stand where the sheet says: the lessons are run for it. Needs
marimo.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import marimo as mo

from netsim.base.files import replace_text
from netsim.lab.lesson import Condition, Lesson, Outcome, Positions, Question, lessons, titles
from netsim.lab.widgets import moved

NAMES = ("teacher.html", "students.html")
LINE = '<div class="line"></div>'      # to write on


@dataclass(frozen=True)
class LessonRun:
    """Results of a lesson: at the start, after each step, and with its exercise solved."""

    lesson: Lesson
    questions: tuple[Question, ...]
    answers: tuple[Outcome, ...]
    opens: str                            # text at the start
    steps: tuple[str, ...]                # text after each step
    at_first: tuple[Condition, ...]
    solved: tuple[Condition, ...]


def write_sheets(folder: Path, tell: Callable[[str], object] = lambda text: None) -> list[Path]:
    """Write both sheets into a folder; ``tell`` receives progress messages."""
    played = []
    for number, path in enumerate(lessons(), start=1):
        tell(f"lesson {number} of {len(lessons())}: {titles()[number]}")
        played.append(play(path))
    pages = (teacher(played), students(played))
    for name, page in zip(NAMES, pages, strict=True):
        replace_text(folder / name, page)
    return [folder / name for name in NAMES]


def run(path: Path, moves: Positions) -> dict[str, Any]:
    """Run a lesson with controls at these positions; return its variables."""
    with moved(moves):
        _, names = runpy.run_path(str(path))["app"].run()
    return dict(names)


def play(path: Path) -> LessonRun:
    names = run(path, {})
    lesson: Lesson = names["lesson"]
    asked = zip(names["questions"], names["answers"], strict=True)
    return LessonRun(
        lesson, names["questions"], tuple(answer().checked(question) for question, answer in asked), names["now"],
        tuple(run(path, step.moves)["now"] for step in lesson.steps),
        names["conditions"], run(path, lesson.exercise.solution)["conditions"])


def teacher(played: Sequence[LessonRun]) -> str:
    """The sheet with figures, answers and solutions."""
    total = sum(each.lesson.minutes for each in played)
    rows = "".join(f"<tr><td>{each.lesson.number}. {escape(each.lesson.title)}</td><td>{_md(each.lesson.aim)}</td>"
                   f'<td class="right">{each.lesson.minutes} min</td></tr>' for each in played)
    front = (f"<header><h1>Lessons on federated learning in a wireless cell: for the teacher</h1>"
             f"<p><code>netsim lab</code> opens the lab and the lessons, on this machine alone. All figures below were "
             f"computed by netsim {escape(version('netsim'))}, by running the lessons. In class: show, let everybody "
             f"predict, then look at the answer.</p><table><thead><tr><th>lesson</th><th>aim</th><th>time</th></tr>"
             f'</thead><tbody>{rows}</tbody></table><p>In all about {total // 60} h {total % 60} min.</p></header>')
    return _page("Lessons: for the teacher", front + "".join(map(_for_the_teacher, played)))


def _for_the_teacher(played: LessonRun) -> str:
    lesson = played.lesson
    shown = "".join(
        f"<tr><td>{_set(step.moves)}</td><td>{_md(said)}</td><td>{_md(step.point)}</td></tr>"
        for step, said in zip(lesson.steps, played.steps, strict=True))
    asked = "".join(f"<li>{_md(question.text)}{_choices(question, answer)}{_md(answer.why)}</li>"
                    for question, answer in zip(played.questions, played.answers, strict=True))
    reached = "; ".join(f"{escape(condition.text)}: {escape(condition.now)}" for condition in played.solved)
    return _section(lesson, f"""
        <h3>What to show</h3>
        <p>As it opens:</p>{_md(played.opens)}
        <table><thead><tr><th>set, from there</th><th>the page says</th><th>point out</th></tr></thead>
        <tbody>{shown}</tbody></table>
        <h3>Questions and answers</h3><ol>{asked}</ol>
        <h3>Exercise</h3>{_md(lesson.exercise.text)}
        <p><b>One solution.</b> {_set(lesson.exercise.solution)}. <b>Then:</b> {reached}.</p>
        <h3>What comes next</h3>{_md(lesson.leads)}""")


def students(played: Sequence[LessonRun]) -> str:
    """The sheet without answers, with room to write: a page a lesson, to be handed out one by one."""
    return _page("Lessons: predictions", "".join(map(_for_students, played)))


def _for_students(played: LessonRun) -> str:
    lesson = played.lesson
    asked = "".join(f"<li>{_md(question.text)}{_choices(question)}<p>Because:</p>{2 * LINE}</li>"
                    for question in played.questions)
    return _section(lesson, f"""
        <p>Name: <span class="line"></span></p>
        <h3>Questions: predict first, write down why, and only then look</h3><ol>{asked}</ol>
        <h3>Exercise</h3>{_md(lesson.exercise.text)}<p>I have set:</p>{2 * LINE}<p>What I have learned from it:</p>
        {LINE}""")


def _section(lesson: Lesson, inside: str) -> str:
    return (f'<section class="lesson"><h2>{lesson.number}. {escape(lesson.title)} <small>about {lesson.minutes} '
            f"minutes</small></h2><div class=\"aim\">{_md(f'**Aim.** {lesson.aim}')}</div>{inside}</section>")


def _choices(question: Question, answer: Outcome | None = None) -> str:
    """Boxes to tick, the right one ticked if there is an answer; or a number to fill in."""
    if not question.choices:
        blank = '<span class="line short"></span>' if answer is None else f"<b>{question.in_words(answer.right)}</b>"
        unit = f" {escape(question.unit)}" if answer is None else ""
        return f"<p>{blank}{unit} (right if within {100 * question.within:.0f} %)</p>"
    right = answer and answer.right
    boxes = (f"<li><b>☑ {escape(choice)}</b></li>" if choice == right else f"<li>☐ {escape(choice)}</li>"
             for choice in question.choices)
    return f'<ul class="choices">{"".join(boxes)}</ul>'


def _set(moves: Positions) -> str:
    return ", ".join(f"{escape(label)}: <b>{escape(f'{value}')}</b>" for label, value in moves.items())


def _md(text: str) -> str:
    return str(mo.md(text).text)


def _page(title: str, inside: str) -> str:
    style = files("netsim.lab").joinpath("worksheets.css").read_text(encoding="utf-8")
    return (f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>\n{style}</style>\n</head>\n'
            f"<body>\n<main>{inside}</main>\n</body>\n</html>\n")

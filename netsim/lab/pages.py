"""Common parts of the lessons' pages: navigation, questions with predictions, exercises that are checked.

Needs marimo. Lessons import only this module, so it also exports the descriptions of lessons.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import marimo as mo

from netsim.lab.lesson import Condition, Exercise, Lesson, Outcome, Question, Step, titles

__all__ = ["Condition", "Exercise", "Lesson", "Outcome", "Question", "Step", "after", "ask", "check", "end", "exercise",
           "navigation", "replies", "reply", "top"]


def top(lesson: Lesson) -> Any:
    """Return the top of a lesson: navigation, aim and duration."""
    aim = mo.md(f"**Aim.** {lesson.aim} *About {lesson.minutes} minutes.*")
    return mo.Html(f'{navigation(lesson.number, "top")}<div class="aim">{aim.text}</div>')


def end(lesson: Lesson) -> Any:
    """Return the end of a lesson: the next topic and navigation."""
    return mo.Html(f'<div class="leads">{mo.md(lesson.leads).text}</div>{navigation(lesson.number, "end")}')


def navigation(number: int, place: str) -> str:
    """Return links to the lab and to the previous and next lesson; plain text if the lab does not serve this page."""
    names = {n: f"{n}. {escape(name)}" for n, name in titles().items()}
    before, after = names.get(number - 1), names.get(number + 1)
    if served_by_the_lab(number):
        inside = ('<a href="../">The lab</a>'
                  + (f'<a rel="prev" href="../lesson-{number - 1}/">← {before}</a>' if before else "")
                  + (f'<a rel="next" href="../lesson-{number + 1}/">{after} →</a>' if after else ""))
    else:
        near = ", ".join(f"{what} {name}" for what, name in (("after", before), ("before", after)) if name)
        inside = f"<span>This lesson comes {near}. <code>netsim lab</code> opens all of them.</span>"
    return f'<nav class="ways" aria-label="Lessons, {place}">{inside}</nav>'


def served_by_the_lab(number: int) -> bool:
    """Return True if the lab serves this page; with `marimo run FILE` the links would lead nowhere."""
    request = mo.app_meta().request
    return request is not None and f"/lesson-{number}" in str(request.url.get("path", ""))


def ask(questions: Sequence[Question]) -> Any:
    """Return a form per question, for a prediction; values are None until it is submitted."""
    return mo.ui.array([
        _field(question).form(submit_button_label="That is my prediction", bordered=False, validate=question.problem)
        for question in questions])


def _field(question: Question) -> Any:
    if question.choices:
        return mo.ui.radio(list(question.choices), label="My prediction:")
    return mo.ui.text(label=f"My prediction ({question.unit}; right if within {100 * question.within:.0f} %):")


def replies(questions: Sequence[Question], predictions: Any, answers: Sequence[Callable[[], Outcome]]) -> Any:
    """Show each question with its form, and after the prediction with the answer, computed only then."""
    return mo.Html("<h2>Questions</h2>" + "".join(
        f'<section class="question" aria-label="Question {n + 1}">{mo.md(f"**{n + 1}.** {question.text}").text}'
        + (f"{predictions[n]}" if predictions.value[n] is None else
           reply(question, question.read(predictions.value[n]), answers[n]()))
        + "</section>"
        for n, question in enumerate(questions)))


def reply(question: Question, said: str | float, answer: Outcome) -> str:
    """Return the verdict on a prediction, with the explanation."""
    right = question.is_right(said, answer.checked(question))
    verdict = "Right" if right else "Not so"
    text = f"You said “{question.in_words(said)}”" + (
        "." if right and question.choices else f"; it is “{question.in_words(answer.right)}”.")
    return (f'<div class="reply {"right" if right else "wrong"}" role="status"><p><b>{verdict}.</b> {escape(text)}</p>'
            f"{mo.md(answer.why).text}</div>")


def after(predictions: Any, number: int, picture: Callable[[], Any]) -> Any:
    """Show a chart only after the prediction of the question that it would answer."""
    if predictions.value[number - 1] is None:
        return mo.Html(f'<p class="later">Once you have predicted question {number}, a curve stands here.</p>')
    return picture()


def exercise(lesson: Lesson, *controls: Any) -> Any:
    """Show the task of an exercise, with a copy of the controls."""
    again = "".join(f"{each}" for each in controls)
    return mo.Html(f'<h2>Exercise</h2><div class="exercise">{mo.md(lesson.exercise.text).text}</div>{again}')


def check(conditions: Sequence[Condition]) -> Any:
    """Show which conditions of an exercise are met, with the current values."""
    done = all(condition.met for condition in conditions)
    each = "".join(f'<li class="{"met" if condition.met else "open"}">{"✓" if condition.met else "✗"} '
                   f"{escape(condition.text)}: {escape(condition.now)}</li>" for condition in conditions)
    return mo.Html(f'<div class="check {"done" if done else "open"}" role="status">'
                   f'<p><b>{"Done." if done else "Not yet."}</b></p><ul>{each}</ul></div>')

"""Every lesson runs from the first cell to the last, asks for predictions, and has an exercise that can be solved."""

from __future__ import annotations

import re
import runpy
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("marimo", reason="no marimo here: the lessons are not run")

from netsim.lab import pages, worksheets
from netsim.lab.lesson import lessons, titles
from netsim.lab.widgets import moved

FOLDER = Path(__file__).parents[2] / "lessons"
LESSONS = lessons()
EACH = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
LONG = ("lesson_4", "lesson_5", "lesson_7", "lesson_9", "lesson_11")      # some ten seconds each
BY_LENGTH = pytest.mark.parametrize("path", [
    pytest.param(path, id=path.stem, marks=[pytest.mark.extended] if path.stem.startswith(LONG) else [])
    for path in LESSONS])
played = cache(worksheets.play)            # a lesson is run for all tests together


def outputs(path: Path, moves=(), defs=None) -> tuple[str, dict]:
    """What the cells show when the controls stand so, as one text, and the names that they define."""
    with moved(dict(moves)):
        shown, names = runpy.run_path(str(path))["app"].run(defs=defs)
    return "\n".join(output.text for output in shown if hasattr(output, "text")), dict(names)


def plain(text: str) -> str:
    """Text without markup, on one line."""
    return " ".join(re.sub(r"<.*?>|[*`]", "", text).split())


@dataclass
class Predictions:
    """What was predicted; a form where nothing was."""

    value: list

    def __getitem__(self, number: int) -> str:
        return "the form"


def test_there_are_eleven():
    assert [int(path.stem.split("_")[1]) for path in LESSONS] == list(range(1, 12)) == [*titles()]
    assert titles()[6] == "What Algorithm 5 misses"


@pytest.mark.slow
@BY_LENGTH
def test_a_lesson_runs_and_keeps_its_answers_to_itself(path):
    shown, names = outputs(path)
    assert f"{path.stem.split('_')[1]}. " in shown
    assert "<marimo-slider" in shown
    assert "<svg" in shown
    assert shown.count('<section class="question"') == len(names["questions"]) >= 2
    assert shown.count("<marimo-form") == len(names["questions"])
    assert 'class="reply' not in shown
    for answer in played(path).answers:
        sentence = re.split(r"(?<=[.;:]) ", plain(answer.why))[-1]
        assert sentence not in plain(shown), "an answer stands in the page before its prediction"
    assert shown.count('<nav class="ways"') == 2
    assert "Not yet." in shown


@pytest.mark.slow
@EACH
def test_an_exercise_is_open_at_first_and_can_be_solved(path):
    found = played(path)
    assert not all(condition.met for condition in found.at_first)
    assert all(condition.met for condition in found.solved), found.solved
    assert "Done." in pages.check(found.solved).text
    assert len(set(found.steps) | {found.opens}) == len(found.steps) + 1, "a step shows nothing new"


@pytest.mark.slow
@EACH
def test_a_right_prediction_is_found_right_and_a_wrong_one_wrong(path):
    found = played(path)
    for question, answer in zip(found.questions, found.answers, strict=True):
        said = {choice: choice == answer.right for choice in question.choices} or {
            answer.right: True, answer.right * (1 + 0.9 * question.within): True,
            answer.right * (1 + 1.1 * question.within): False, answer.right * (1 - 1.1 * question.within): False}
        for value, right in said.items():
            shown = pages.reply(question, value, answer)
            assert ("<b>Right.</b>" in shown) == right == ("<b>Not so.</b>" not in shown)
            assert plain(answer.why)[:30] in plain(shown)


def test_a_prediction_opens_its_own_answer_alone_and_the_answer_follows_the_sliders():
    """Near, with little band: then half the model is what helps, and no longer a faster clock."""
    one = LESSONS[0]
    _, names = outputs(one)
    defs = {"questions": names["questions"], "predictions": Predictions([None, None, "Twice the clock"])}
    shown, _ = outputs(one, defs=defs)
    assert shown.count("the form") == 2
    assert shown.count('class="reply') == 1
    assert "<b>Right.</b> You said “Twice the clock”." in shown
    shown, _ = outputs(one, {"bandwidth (MHz)": 0.1, "CPU frequency (GHz)": 3.0}, defs)
    assert "<b>Not so.</b> You said “Twice the clock”; it is “Half the model”." in shown


def test_a_control_that_is_not_there_is_no_control():
    with pytest.raises(ValueError, match="no control is called 'bandwith'"):
        outputs(LESSONS[0], {"bandwith": 3})


@pytest.mark.slow
def test_the_answers_by_hand():
    """Some of the figures that follow from formulas, worked out without the program."""
    by_hand = {1: [1.50], 3: [60.0], 4: [None, None, 100 * (1 - 0.99**100)], 9: [4.5], 11: [3.0, None, 2.71828 - 1]}
    for number, expected in by_hand.items():
        for answer, value in zip(played(LESSONS[number - 1]).answers, expected, strict=False):
            assert value is None or answer.right == pytest.approx(value, rel=0.05)
    chosen = {1: "It is four times as much", 4: "Of the sensor's clock", 6: "It gets longer", 8: "Of SAO alone",
              9: "FedBuff: its devices never wait", 10: "The plan on the mean gain", 11: "The mean round only"}
    for number, choice in chosen.items():
        assert choice in [answer.right for answer in played(LESSONS[number - 1]).answers]
    assert played(LESSONS[9]).answers[1].right == "The plan on the gain now"     # the channel outlives the round


@pytest.mark.slow
def test_the_sheets_tell_everything_about_every_lesson():
    found = [played(path) for path in LESSONS]
    teacher, students = worksheets.teacher(found), worksheets.students(found)
    for page in (teacher, students):
        text = re.sub(r"<style>.*?</style>|<.*?>", " ", page, flags=re.DOTALL)
        assert page.count('<section class="lesson">') == 11
        assert not re.search(r"\b(nan|inf|None|NaN)\b", text)
        assert not re.search(r"https?:|src=|<script|marimo-|\$", page)       # nothing to fetch, nothing to run
        for each in found:
            assert f"{each.lesson.number}. {each.lesson.title}" in page
    assert teacher.count("☑") == sum(bool(question.choices) for each in found for question in each.questions)
    assert teacher.count("One solution.") == 11
    assert "☑" not in students
    assert "One solution" not in students
    assert "more band also lets in more noise" in " ".join(teacher.split())
    assert "more band also lets in more noise" not in " ".join(students.split())


def test_the_lab_page_runs():
    shown, names = outputs(FOLDER / "lab.py")
    assert all(f'data-round-s="{plan.round_s!r}"' in shown for plan in names["view"].plans)
    assert shown.count("<marimo-dropdown") == 2 + 1 + 1               # two methods, how the band is shared, a device


@pytest.mark.slow
def test_the_template_is_a_whole_lesson_of_at_most_60_lines():
    template = FOLDER / "template.py"
    assert len(template.read_text().splitlines()) <= 60
    shown, names = outputs(template)
    assert "12. My topic" in shown
    assert {"lesson", "now", "questions", "answers", "conditions"} <= set(names)
    assert [pages.Question.is_right(question, answer().right, answer().checked(question))
            for question, answer in zip(names["questions"], names["answers"], strict=True)] == [True, True]
    assert all(each.met for each in outputs(template, names["lesson"].exercise.solution)[1]["conditions"])

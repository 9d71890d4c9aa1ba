"""Questions, what they take for right, and the ways between lessons."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("marimo", reason="no marimo here: the lessons are not run")

from netsim.lab import pages
from netsim.lab.lesson import Outcome, Question, digits, titles


def test_a_number_is_right_within_its_tolerance_on_both_sides():
    question = Question("How long?", unit="ms", within=0.1)
    for said, right in ((100.0, True), (110.0, True), (90.0, True), (110.1, False), (89.9, False), (-100.0, False)):
        assert question.is_right(said, Outcome(100.0, "")) is right
    assert question.is_right(-95, Outcome(-100.0, ""))
    assert question.is_right(0, Outcome(0.0, ""))
    assert question.in_words(1234.5) == "1230 ms"


@pytest.mark.parametrize(("value", "text"), [(1.5, "1.5"), (0.01234, "0.0123"), (60.0, "60"), (123456.0, "123000")])
def test_three_digits(value, text):
    assert digits(value) == text


@pytest.mark.parametrize("given", [{}, {"choices": ("one",)}, {"choices": ("one", "two"), "unit": "ms"}])
def test_a_question_has_choices_or_a_unit(given):
    with pytest.raises(ValueError, match="two choices and more, or a unit"):
        Question("Which?", **given)


def test_an_answer_that_can_not_be_given_is_refused():
    with pytest.raises(ValueError, match="'three' is none of the choices"):
        Outcome("three", "").checked(Question("Which?", ("one", "two")))
    with pytest.raises(ValueError, match="nan is no answer"):
        Outcome(float("nan"), "").checked(Question("How long?", unit="ms"))


def test_what_is_said_can_not_bring_its_own_markup():
    told = pages.reply(Question("Which?", ("<b>", "two")), "<b>", Outcome("two", "Two it is."))
    assert "“&lt;b&gt;”" in told


def test_every_way_leads_to_a_lesson_or_the_lab(monkeypatch):
    monkeypatch.setattr(pages, "served_by_the_lab", lambda number: True)
    there = {"../", *(f"../lesson-{number}/" for number in titles())}
    for number, title in titles().items():
        links = re.findall(r'href="(.*?)"', pages.navigation(number, "top"))
        assert set(links) <= there
        assert links[0] == "../"
        assert len(links) == (2 if number in (1, max(titles())) else 3)
        assert title not in pages.navigation(number, "top")
    assert "← 1. One device" in pages.navigation(2, "end")
    assert "3. Energy budgets →" in pages.navigation(2, "end")


def test_a_lesson_that_is_opened_alone_has_no_link_that_leads_nowhere():
    told = pages.navigation(2, "top")
    assert "href" not in told
    assert "after 1. One device, before 3. Energy budgets" in told
    assert "netsim lab" in told


@pytest.mark.parametrize(("said", "number"), [("12.5", 12.5), ("12,5", 12.5), (" 12,5 ms ", 12.5), ("−3", -3.0),
                                              ("1e2", 100.0), (7, 7.0)])
def test_a_number_may_have_a_decimal_comma(said, number):
    question = Question("How long?", unit="ms")
    assert question.read(said) == number
    assert question.problem(str(said)) is None


def test_a_prediction_that_cannot_be_submitted_says_why():
    number, choice = Question("How long?", unit="ms"), Question("Which?", ("one", "two"))
    assert number.problem("") == number.problem(None) == number.problem("  ") == "Enter a number first."
    assert choice.problem(None) == "Choose first."
    for said in ("long", "1,2,3", "nan", "inf"):
        assert "is not a number; write it such as 12.5 or 12,5" in number.problem(said)
    assert choice.problem("one") is None

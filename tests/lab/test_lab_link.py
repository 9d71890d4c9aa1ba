"""What a link may say, what it may not, and what the reader is told."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from refused import refused

from netsim.cli import main
from netsim.lab.svg import LIGHT, fixed, paint
from netsim.lab.url_state import below, key_of, pick, pick_range, text_of

STEPS = [1, 2, 5, 10, 0.5]


@pytest.mark.parametrize(("label", "key"), [
    ("bandwidth (MHz)", "bandwidth"), ("CPU range (GHz)", "cpu-range"), ("the band is shared", "the-band-is-shared"),
])
def test_the_label_is_the_key(label, key):
    assert key_of(label) == key


@pytest.mark.parametrize("value", [20, 0.2, 3640, (15.0, 30.0), [0.2, 2.0], "equal"])
def test_what_is_written_is_read(value):
    text = text_of(value)
    if isinstance(value, (tuple, list)):
        assert pick_range(text, [0.2, 2, 15, 30], (15, 30)) == (list(value), "")
    else:
        assert pick(text, [value], value) == (value, "")


@pytest.mark.parametrize(("found", "told"), [
    ("11", "It should be from 0.5 to 10; now it is 2."), ("3", "a step of the slider, such as 2 or 5; now it is 2."),
    ("5.0", "It should be written 5;"), ("nan", "from 0.5 to 10"), ("-inf", "from 0.5 to 10"),
    ("", "The link says “”."), ("1e999", "from 0.5 to 10"),
    ("x" * 99, "“" + "x" * 40 + "…”"), ("__import__('os')", "from 0.5 to 10"),
])
def test_what_is_not_offered_stays_as_it_was(found, told):
    value, said = pick(found, STEPS, 2)
    assert value == 2
    assert told in said


@pytest.mark.parametrize("found", ["5", "10-1", "1-2-5", "1-3", "-", "a-b", "1-1e9"])
def test_two_ends_in_their_order(found):
    value, said = pick_range(found, STEPS, (1, 5))
    assert value == [1, 5]
    assert "two steps from 0.5 to 10, the lower one first, as in 1-5; now it is 1-5." in said


def test_what_is_behind_a_labs_own_address():
    for link in ("bandwidth=10&left=sao", "?bandwidth=10&left=sao", "http://127.0.0.1:9/word-of_another/?bandwidth=10&left=sao"):
        assert below(link) == "?bandwidth=10&left=sao"
    assert below(" http://localhost:1/x/lesson-2/?draw=7 ") == "lesson-2/?draw=7"
    assert below("lesson-11/") == "lesson-11/"


@pytest.mark.parametrize("link", ["", "?", "lesson-2/../x", "//evil.example/?a=b", "a=b c", "a=b\nc", "#a=b", "a=<b>"])
def test_no_other_address(link):
    with refused("malformed", "--link"):
        below(link)


def test_a_link_that_is_none_ends_in_a_sentence(monkeypatch, capsys):
    pytest.importorskip("marimo")
    monkeypatch.setattr(sys, "argv", ["netsim", "lab", "--link", "http://evil.example/"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: --link: cannot be read (found “http://evil.example/”")


# Colours: what is written can be read, and what is drawn can be seen, by day and by night.

def luminance(colour: str) -> float:
    channels = [int(colour[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


def dark() -> dict[str, str]:
    style = (Path(__file__).parents[2] / "lessons" / "lessons.css").read_text(encoding="utf-8")
    return dict(re.findall(r"--net-([\w-]+): (#\w{6})", style.split("prefers-color-scheme: dark")[1]))


@pytest.mark.parametrize("colours", [LIGHT, dark()], ids=["light", "dark"])
def test_every_colour_can_be_told_from_the_page(colours):
    assert set(LIGHT) <= set(colours)
    for name in ("ink", "soft", "critical"):
        assert contrast(colours[name], colours["paper"]) >= 4.5
    for name in ("compute", "upload", "wait"):
        assert contrast(colours[name], colours[f"on-{name}"]) >= 4.5
    for name in ("compute", "critical", "c0", "c2", "c3"):
        assert contrast(colours[name], colours["paper"]) >= 3


def test_every_notebook_follows_the_screen():
    for notebook in (Path(__file__).parents[2] / "lessons").glob("l*.py"):
        head = notebook.read_text(encoding="utf-8").splitlines()[:4]
        assert head[0] == "# /// script"
        assert head[1] == "# [tool.marimo.display]"
        assert head[2].startswith('# theme = "system"')


def test_a_file_has_colours_of_its_own():
    assert fixed(f'<rect fill="{paint("ink")}"/>') == f'<rect fill="{LIGHT["ink"]}"/>'

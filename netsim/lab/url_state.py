"""Settings of controls in the address of a page; values that a control does not offer are reported."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TypeVar

from netsim.base.errors import InputError

Choice = TypeVar("Choice", float, str)
SETTING = r"[\w.~%+-]+=[\w.~%+-]*"
LINK = re.compile(rf"(?:https?://[^/\s]+/[\w-]+/)?(?P<lesson>lesson-\d+/)?\??(?P<settings>(?:{SETTING}(?:&{SETTING})*)?)")
MOST_LETTERS = 40                       # of a quoted value


def key_of(label: str) -> str:
    """Return the key of a control in a link: its label without the unit, as in ``transmit-power``."""
    return re.sub(r"[^a-z0-9]+", "-", label.split("(")[0].lower()).strip("-")


def text_of(value: float | str | Sequence[float]) -> str:
    """Return a value as written in a link; both ends of a range, as in ``15-30``."""
    if isinstance(value, str):
        return value
    return f"{value:g}" if isinstance(value, (int, float)) else "-".join(f"{end:g}" for end in value)


def pick(found: str | None, offered: Sequence[Choice], start: Choice) -> tuple[Choice, str]:
    """Return the offered value that a link names; else ``start`` and a sentence for the reader."""
    named = {text_of(each): each for each in offered}
    if found is None:
        return start, ""
    if found in named:
        return named[found], ""
    return start, _refused(found, _allowed(found, offered), text_of(start))


def pick_range(found: str | None, steps: Sequence[float], start: Sequence[float]) -> tuple[list[float], str]:
    """Return the two ends that a link names, each a step; else ``start`` and a sentence for the reader."""
    named = {text_of(step): step for step in steps}
    ends = (found or "").split("-")
    if len(ends) == 2 and all(end in named for end in ends) and named[ends[0]] <= named[ends[1]]:
        return [named[end] for end in ends], ""
    allowed = f"two steps from {min(steps):g} to {max(steps):g}, the lower one first, as in {text_of(start)}"
    return list(start), "" if found is None else _refused(found, allowed, text_of(start))


def below(link: str) -> str:
    """Return the part of a link after the lab's own address: ``lesson-2/?draw=7``."""
    found = LINK.fullmatch(link.strip())
    if found is None or not (found["lesson"] or found["settings"]):
        raise InputError("malformed", "--link", _shown(link), "a link to settings, as the page shows it, such as "
                         "'bandwidth=10&left=sao' or 'lesson-2/?draw=7'")
    return (found["lesson"] or "") + (f"?{found['settings']}" if found["settings"] else "")


def _allowed(found: str, offered: Sequence[Choice]) -> str:
    numbers = [float(each) for each in offered if not isinstance(each, str)]
    if not numbers:
        return f"one of {', '.join(map(str, offered))}"
    try:
        asked = float(found)
    except ValueError:
        asked = math.nan
    if min(numbers) < asked < max(numbers):
        under, over = max(each for each in numbers if each <= asked), min(each for each in numbers if each >= asked)
        return f"a step of the slider, such as {under:g} or {over:g}" if under < over else f"written {under:g}"
    return f"from {min(numbers):g} to {max(numbers):g}"


def _refused(found: str, allowed: str, start: str) -> str:
    return f"The link says {_shown(found)}. It should be {allowed}; now it is {start}."


def _shown(text: str) -> str:
    return f"“{text if len(text) <= MOST_LETTERS else text[:MOST_LETTERS] + '…'}”"

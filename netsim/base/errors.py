"""Input errors: one clear message, exit code 2, no traceback."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from traceback import extract_tb
from typing import Any, Self

from netsim.base.error_codes import ERROR_CODES

MOST_LISTED = 10             # errors that one message lists
MOST_CHARACTERS = 1_990    # of a message, so that it stays below 2,000 with "error: " before it
ROOM = 50                  # characters for line ends and how many more there are
_HEAD = 1_400
US = str(Path(__file__).parents[1])
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class InputError(ValueError):
    """Error in the input of a user; the program ends with exit code 2 and this message.

    The message is ``source: key: problem (found X; expected Y). Hint.``; the problem is that of the code.

    Parameters
    ----------
    code
        The kind of fault, one of :data:`~netsim.base.error_codes.ERROR_CODES`.
    key
        Where the fault lies: a key of the scenario, an option, an argument; a file where the file itself is at fault.
    found
        What was given; text is shown as it stands (``quoted`` puts it into quotes), other values as Python writes
        them. None says nothing.
    expected
        What is allowed there.
    hint
        What to do about it, a sentence.
    source
        Where the key was given, if that is to be said: a file and its line, or ``--set``.

    Examples
    --------
    >>> str(InputError("more-than-devices", "server.concurrency", 12, "at most 10", "Add devices, or lower it"))
    'server.concurrency: is more than there are devices (found 12; expected at most 10). Add devices, or lower it.'
    """

    def __init__(
        self, code: str, key: str = "", found: object = None, expected: str = "", hint: str = "", source: str = "",
    ) -> None:
        super().__init__(code, key, found, expected, hint, source)      # SimPy and pickle make it again from these
        self.code, self.key, self.found, self.expected, self.hint, self.source = (
            code, key, found, expected, hint, source)

    def __str__(self) -> str:
        return readable(self.text())

    def text(self) -> str:
        """Return the message and the hint as sentences."""
        given = None if self.found is None else self.found if isinstance(self.found, str) else repr(self.found)
        details = [f"found {given}"] * bool(given) + [f"expected {self.expected}"] * bool(self.expected)
        problem = ERROR_CODES[self.code] + (f" ({'; '.join(details)})" if details else "")
        message = ": ".join(part for part in (self.source, self.key, problem) if part)
        return f"{message}. {self.hint}{'' if self.hint[-1] in '.?!' else '.'}" if self.hint else message

    def at(self, key: str | None = None, source: str = "") -> InputError:
        """Place the error: the function that parsed a value does not know its key or source.

        Parameters
        ----------
        key : str, optional
            The key; by default as it is.
        source : str, optional
            The file or option; by default as it is.

        Returns
        -------
        InputError
            The same error, there.
        """
        where = self.key if key is None else key
        return type(self)(self.code, where, self.found, self.expected, self.hint, source or self.source)


class SeveralInputErrors(InputError):  # noqa: N818 - several
    """Several errors, a line each; code, key and so on are those of the first.

    ``there`` counts them all, where only the first are given: a CSV file may be wrong in each of a million rows.
    """

    def __init__(self, *errors: InputError, there: int = 0) -> None:
        super().__init__(*errors[0].args)
        self.args = self.errors = errors
        self.there = max(there, len(errors))

    def at(self, key: str | None = None, source: str = "") -> SeveralInputErrors:
        return SeveralInputErrors(*(error.at(key, source) for error in self.errors), there=self.there)

    def text(self) -> str:
        lines = [error.text() for error in self.errors[:MOST_LISTED]]
        while len(lines) > 1 and sum(map(len, lines)) > MOST_CHARACTERS - ROOM:
            lines.pop()
        more = self.there - len(lines)
        return "\n".join([*lines, f"... and {more:,} more"] if more else lines)


OWN_CODE = 'Code of your own: "package.module:Name".'


def unknown(
    key: str, name: object, allowed: Iterable[str], code: str = "unknown-name", hint: str = "", source: str = "",
    *, secret: bool = False,
) -> InputError:
    """Return the error for an unknown name: lists the allowed names and suggests the nearest.

    A ``secret`` name is not repeated: any file may be named as a table, and its first line read as names.
    """
    names = sorted(allowed)
    hints = filter(None, (did_you_mean(nearest(str(name), names)), hint))
    return InputError(code, key, None if secret else quoted(name), alternatives(names) or "none", " ".join(hints),
                      source)


def require_known(
    key: str, names: Iterable[str], allowed: Collection[str], code: str = "unknown-name", hint: str = "",
    source: str = "", *, secret: bool = False,
) -> None:
    """Raise the error of :func:`unknown` for the first name that is not allowed; ``key`` is by default the name."""
    for name in names:
        if name not in allowed:
            raise unknown(key or name, name, allowed, code, hint, source, secret=secret)


def did_you_mean(near: str | None) -> str:
    """Return the hint at a similar name; empty without one."""
    return f'Did you mean "{near}"?' if near else ""


class UserCodeError(InputError):
    """Error in code of a user, with its file, line and message, without frames of netsim."""

    @classmethod
    def of(cls, what: str, error: BaseException, function: Any = None, at: float | None = None) -> Self:
        """Report an error in ``what``, at a simulated time if one is given.

        Where none of its lines is the user's, it is reported with the first line of ``function``.
        """
        frames = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.startswith(US)]
        theirs = [frame for frame in frames if frame.filename == frames[0].filename]       # below may be a library
        written = getattr(function, "__code__", None)
        where = f", line {theirs[-1].lineno} of {_file(theirs[-1].filename)}" if theirs else (
            f", line {written.co_firstlineno} of {_file(written.co_filename)}" if written else "")
        code = f": {theirs[-1].line}" if theirs and theirs[-1].line else ""
        when = "" if at is None else f" (at {at:.6g} s)"
        return cls("your-code", what, f"{where}{code}: {type(error).__name__}: {error}{when}")

    def text(self) -> str:
        return f"{self.source}{': ' if self.source else ''}{self.key}{self.found}"

    def in_round(self, number: int) -> UserCodeError:
        """Return the same error with the number of the round, unless it has one."""
        return self if self.key.startswith("round ") else UserCodeError(
            self.code, f"round {number}, {self.key}", self.found)


def ask(what: str, call: Callable[..., Any], *arguments: Any, at: float | None = None) -> Any:
    """Call a function of the user; an exception in it becomes a UserCodeError about ``what``."""
    try:
        return call(*arguments)
    except InputError:
        raise
    except Exception as error:
        raise UserCodeError.of(what, error, at=at) from None


def _file(name: str) -> str:
    """Return the name of a file; cells of notebooks have generated names."""
    return "the notebook's cell" if "ipykernel" in name or name.startswith("<") else name


class WorkerError(RuntimeError):
    """A worker process ended without a result, most often for lack of memory."""


def readable(message: str) -> str:
    """Escape the control characters of a message that may quote an untrusted file, and shorten it."""
    text = _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), message)
    if len(text) <= MOST_CHARACTERS:
        return text
    mark = f" ... ({len(text) - MOST_CHARACTERS} characters left out) ... "
    return text[:_HEAD] + mark + text[_HEAD + len(mark) - MOST_CHARACTERS:]


def describe_value(value: object) -> str:
    """Describe a value by its type and its shortened repr."""
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def quoted(value: object) -> str:
    """Return a value as TOML writes it, shortened."""
    text = f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return (text if len(text) <= 80 else text[:77] + "...").replace("\n", "\\n")


def alternatives(names: Sequence[str]) -> str:
    """``a, b or c``."""
    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def nearest(found: str, allowed: Sequence[str]) -> str | None:
    """Return the most similar name, ignoring case: "mhz" means MHz, not Hz; None if none is similar."""
    same = [name for name in allowed if name.casefold() == found.casefold()]
    return next(iter(same or get_close_matches(found, allowed, n=1, cutoff=0.5)), None)


def suggest(found: str, allowed: Iterable[str]) -> str:
    """``allowed: a, b, c`` and, where one is near, ``did you mean "b"?``, for a message that is no InputError."""
    names = sorted(allowed)
    near = nearest(found, names)
    return f"allowed: {', '.join(names)}" + (f'; did you mean "{near}"?' if near else "")

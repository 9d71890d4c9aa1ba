"""Help pages of commands and their entries in the reference, both from the signatures of the commands.

The layout of typer's own help changes between versions, so the pages are formatted here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, get_args, get_type_hints

import typer
from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup
from typer.models import ArgumentInfo

PARAGRAPH = re.compile(r"\n\s*\n")


@dataclass(frozen=True)
class ParameterText:
    """Description of an argument or an option."""

    names: tuple[str, ...]        # of an option; an argument has none
    takes: str                    # the word for its value; a flag has none
    meaning: str
    default: str                  # empty if there is none, or it is not shown
    required: bool


@dataclass(frozen=True)
class CommandText:
    """Description of a command; the first paragraph is a summary, the others keep their line breaks."""

    name: str
    panel: str
    summary: str
    paragraphs: tuple[str, ...]
    parameters: tuple[ParameterText, ...]

    @property
    def arguments(self) -> list[ParameterText]:
        return [parameter for parameter in self.parameters if not parameter.names]

    @property
    def options(self) -> list[ParameterText]:
        return [parameter for parameter in self.parameters if parameter.names]


def command_texts(app: typer.Typer) -> list[CommandText]:
    """Return all commands of a program, in the order of its help page."""
    def texts(of: typer.Typer, above: str = "", panel: str = "") -> Iterator[CommandText]:
        for info in of.registered_commands:
            if info.callback and not info.hidden:
                text = command_text(info.callback, panel or str(info.rich_help_panel))
                yield replace(text, name=f"{above}{info.name or text.name}")

    inner = [text for group in app.registered_groups if group.typer_instance
             for text in texts(group.typer_instance, f"{group.name} ", str(group.rich_help_panel))]
    panels = [str(info.rich_help_panel) for info in app.registered_commands]
    return sorted([*texts(app), *inner], key=lambda text: panels.index(text.panel))      # stable: groups come last


def command_text(function: Callable[..., Any], panel: str = "") -> CommandText:
    """Return the description of a command from the docstring and the annotations of its function."""
    hints = get_type_hints(function, include_extras=True)
    first, *more = PARAGRAPH.split(inspect.getdoc(function) or "")
    parameters = inspect.signature(function).parameters.values()
    return CommandText(
        function.__name__.replace("_", "-"), panel, re.sub(r"\s+", " ", first), tuple(more),
        tuple(parameter_text(parameter.name, hints[parameter.name], parameter.default) for parameter in parameters))


def parameter_text(name: str, hint: Any, default: Any) -> ParameterText:
    """Return the description of a parameter from its annotation ``Annotated[type, typer.Option(…)]``."""
    kind, info = get_args(hint)
    argument = isinstance(info, ArgumentInfo)
    required = default is inspect.Parameter.empty
    word = "" if kind is bool else info.metavar or name.strip("_").upper()
    given = [declared for declared in (info.default, *(info.param_decls or ())) if isinstance(declared, str)]
    names = () if argument else tuple(given or ["--" + name.strip("_").replace("_", "-")])
    shown = info.show_default if isinstance(info.show_default, str) else ""
    if not shown and not required and default is not None and default is not False and default != []:
        shown = str(default.value if isinstance(default, Enum) else default)
    return ParameterText(names, word, info.help or "", shown, required)


class HelpPage(TyperCommand):
    """A command with a help page of this module."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        text = self.text
        pieces = [usage(ctx, self.collect_usage_pieces(ctx)), text.summary, *text.paragraphs]
        show(pieces, [("Arguments", [row(argument) for argument in text.arguments]),
                      ("Options", [*(row(option) for option in text.options), HELP])])

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", *(argument.takes for argument in self.text.arguments)]

    @property
    def text(self) -> CommandText:
        assert self.callback is not None
        return command_text(inspect.unwrap(self.callback))


class HelpPages(TyperGroup):
    """A program whose help page lists its commands, a panel for each kind."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        own = OF_THE_PROGRAM if ctx.parent is None else ()
        panels: dict[str, list[tuple[str, ...]]] = {"Options": [*own, HELP]}
        for name, command in self.commands.items():
            if command.hidden:
                continue
            function = None if isinstance(command, TyperGroup) else command.callback
            summary = command_text(inspect.unwrap(function)).summary if function else str(command.help)
            panels.setdefault(str(getattr(command, "rich_help_panel", "Commands")), []).append((name, summary))
        show([usage(ctx, ["[OPTIONS]", "COMMAND [ARGS]..."]), *PARAGRAPH.split(self.help or "")], list(panels.items()))


HELP = ("--help, -h", "", "Show this message and exit.")
OF_THE_PROGRAM = (("--version", "", "Show the version and exit."),
                  ("--install-completion", "", "Install completion of commands and options for this shell."))


def row(parameter: ParameterText) -> tuple[str, str, str]:
    """Return a line of a panel: spelling, value, meaning."""
    note = " [required]" if parameter.required else f" [default: {parameter.default}]" if parameter.default else ""
    written, takes = (", ".join(parameter.names), parameter.takes) if parameter.names else (parameter.takes, "")
    return written, takes, parameter.meaning + note


def usage(ctx: Any, pieces: list[str]) -> str:
    return " ".join(["Usage:", ctx.command_path, *pieces])


def show(paragraphs: list[str], panels: list[tuple[str, list[Any]]]) -> None:
    """Print a page: paragraphs, then panels with a table in each; square brackets are not markup."""
    console = Console(highlight=False)
    for text in paragraphs:
        console.print(Padding(Text(text), (1, 1, 0, 1)))
    console.print("")
    first = max(len(line[0]) for _, lines in panels for line in lines if lines)
    for title, lines in panels:
        if lines:
            table = Table.grid(padding=(0, 2))
            table.add_column(min_width=first, no_wrap=True, style="bold cyan")
            for _ in lines[0][1:-1]:
                table.add_column(no_wrap=True, style="yellow")
            table.add_column()
            for line in lines:
                table.add_row(*(Text(cell) for cell in line))
            console.print(Panel(table, title=title, title_align="left", border_style="dim"))

"""Plain technical English, as far as a program can check it: vague words, openings of docstrings, numpydoc sections."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
VAGUE = re.compile(r"\b(whoever|nobody|somebody|anybody|told|anew|in vain|for ever|by turns|those who|so many|"
                   r"put up|wears? off|comes? to grief|gives? room|goes on|go on with|what is there|gets to)\b", re.I)
# A text that uses one of these words for a reason: the text, and why.
EXCEPTIONS: dict[str, str] = dict.fromkeys((
    "gets to the target with less", "never gets to 55 %", "In each layout lambda is found anew",
    "its curve goes on there at its last value", "those who send share the band equally",
    "and nobody drops out, which is checked"), "stored report") | {"~nobody-here": "a user name that does not exist"}
INTERNAL = ("netsim.Run.collect",)      # for netsim's own analysis
SOURCES = ("netsim", "models", "lessons", "scenarios")
VAGUE_OPENING = re.compile(r"(What|How|Whether|Who|Where|Something|Let|Of|As|Meanwhile)\b")


def python_files() -> Iterator[Path]:
    for folder in SOURCES:
        yield from sorted((ROOT / folder).rglob("*.py"))


def texts_of_code(path: Path) -> Iterator[tuple[int, str]]:
    """Every text of a module that people may read: docstrings, messages, help."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def comments(path: Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        _, sign, text = line.partition("#")
        if sign:
            yield number, text


def texts() -> Iterator[tuple[Path, int, str]]:
    for path in python_files():
        for line, text in (*texts_of_code(path), *comments(path)):
            yield path, line, text
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield path, line, text
    for path in sorted((ROOT / "scenarios").glob("*.toml")):
        for line, text in comments(path):
            yield path, line, text


def test_no_vague_word() -> None:
    """A word that names neither device, job, caller, user nor file leaves the reader to guess."""
    found = [f"{path.relative_to(ROOT)}:{line}: {word[0]}: {text.strip()[:120]}" for path, line, text in texts()
             if (word := VAGUE.search(text)) and not any(known in text for known in EXCEPTIONS)]
    assert not found, "\n".join([f"{len(found)} texts", *found])


def test_docstrings_begin_with_what_a_thing_is_or_does() -> None:
    found = []
    for path in python_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                doc = ast.get_docstring(node) or ""
                if VAGUE_OPENING.match(doc):
                    found.append(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: {doc.splitlines()[0][:100]}")
    assert not found, "\n".join([f"{len(found)} docstrings", *found])


def public() -> Iterator[tuple[str, object]]:
    import make_reference

    for module, names in make_reference.PUBLIC.items():
        for name in names:
            thing = getattr(import_module(module), name)
            yield f"{module}.{name}", thing
            if inspect.isclass(thing):
                for own, member in make_reference.members_of(name, thing).items():
                    if inspect.isfunction(member) and f"{module}.{name}.{own}" not in INTERNAL:
                        yield f"{module}.{name}.{own}", member


@pytest.mark.parametrize(("name", "thing"), [pytest.param(*each, id=each[0]) for each in public()])
def test_the_public_api_has_numpydoc_sections(name: str, thing: object) -> None:
    """Parameters with a line each; Returns where something is returned."""
    doc = inspect.getdoc(thing) or ""
    assert doc, f"{name} has no docstring"
    if not inspect.isfunction(thing):
        return
    asked = [each.name for each in inspect.signature(thing).parameters.values() if each.name not in ("self", "cls")]
    if asked:
        assert "\nParameters\n----------\n" in doc, f"{name}: no Parameters section"
        section = doc.partition("\nParameters\n----------\n")[2].partition("\n------")[0]
        missing = [each for each in asked if not re.search(rf"(^|[ ,*]){each}( :|,)", section, re.MULTILINE)]
        assert not missing, f"{name}: not under Parameters: {missing}"
    if not asked and doc.startswith("Return "):      # the first line says it all
        return
    if inspect.signature(thing).return_annotation not in (None, "None", inspect.Signature.empty):
        assert "\nReturns\n-------\n" in doc or "\nYields\n------\n" in doc, f"{name}: no Returns section"


TYPE = re.compile(r"\b[A-Z][a-z]\w+")


def described(name: str, thing: object) -> Iterator[tuple[str, str, str]]:
    """Name, described type and annotation of each documented parameter, and of what a function returns."""
    annotated = {each: str(kind) for each, kind in vars(thing).get("__annotations__", {}).items()}
    annotated |= getattr(thing, "__annotations__", {}) if inspect.isfunction(thing) else {}
    if inspect.isclass(thing) and "__init__" in vars(thing):
        annotated |= {each: str(kind) for each, kind in thing.__init__.__annotations__.items()}
    section = ""
    for line in (inspect.getdoc(thing) or "").splitlines():
        section = line if line in ("Parameters", "Attributes", "Returns", "Raises", "Examples", "Yields") else section
        if section in ("Parameters", "Attributes") and (found := re.match(r"(\w[\w, ]*) : (.*)", line)):
            yield from ((f"{name}: {each}", found[2], annotated[each])
                        for each in found[1].split(", ") if each in annotated)
        if section in ("Returns", "Yields") and TYPE.fullmatch(line.removesuffix(" or None")) and line != section:
            yield f"{name}: {section.lower()}", line, annotated.get("return", line)


def test_described_types_are_those_of_the_annotations() -> None:
    """A class that was renamed keeps its old name in docstrings, where no tool looks."""
    things = {}
    for path in sorted((ROOT / "netsim").rglob("*.py")):
        if "__main__" not in path.name:
            module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
            things |= {f"{module.__name__}.{each}": thing for each, thing in vars(module).items()
                       if (inspect.isclass(thing) or inspect.isfunction(thing)) and thing.__module__ == module.__name__}
    assert len(things) > 1000
    wrong = [f"{name}: {described_as!r}, but {annotation}" for each, thing in things.items()
             for name, described_as, annotation in described(each, thing) if "Any" not in annotation
             for kind in TYPE.findall(described_as) if kind not in ("None", "True", "False") and kind not in annotation]
    assert not wrong, "\n".join(wrong)

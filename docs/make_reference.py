"""Write docs/reference/ from the program itself: `make reference` after a change of keys, commands or columns."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netsim.cli.help_pages import ParameterText

HERE = Path(__file__).parent
NOTE = "<!-- Written by docs/make_reference.py from the program itself: change that, then `make reference`. -->\n"


def pages() -> dict[str, str]:
    """The reference, page by page."""
    return {"scenario.md": scenario(), "methods.md": methods(), "commands.md": commands(), "trace.md": trace(),
            "python.md": python(), "errors.md": errors()}


# ---- scenario keys ----

TABLES = {                     # where a table of the schema stands in a scenario file
    "Cell": "[cell]", "LogDistance": "cell.path_loss, model log-distance",
    "FreeSpace": "cell.path_loss, model free-space", "OwnPathLoss": 'cell.path_loss, model "package.module:function"',
    "GainTrace": "cell.gain_trace", "Shadowing": "cell.shadowing, as a table",
    "Rayleigh": "cell.fading, model rayleigh", "Rician": "cell.fading, model rician", "Rate": "cell.link",
    "OwnRate": 'cell.link, model "package.module:Name"',
    "MeasuredLink": "cell.link, model airtime or dedicated", "Downlink": "cell.downlink",
    "Population": "[[population]]",
    "Cpu": "population.cpu", "Radio": "population.radio", "RateTrace": "population.radio.rate, as a table",
    "KappaPower": "population.cpu.power, model kappa", "TablePower": "population.cpu.power, model table",
    "Fleet": "population.devices",
    "RandomWaypoint": "population.mobility, model random-waypoint", "Recorded": "population.mobility, model recorded",
    "Track": "population.mobility.tracks", "OnOff": "population.availability, model on-off",
    "RecordedOnOff": "population.availability, model recorded", "Intervals": "population.availability.intervals",
    "Crash": "population.crash", "Loss": "population.loss", "Charging": "population.charging",
    "Throttle": "population.throttle", "Variation": "population.variation", "Learning": "[learning]",
    "Majority": "learning.partition, kind majority", "TwoClass": "learning.partition, kind two-class",
    "Iid": "learning.partition, kind iid", "Dirichlet": "learning.partition, kind dirichlet",
    "Shards": "learning.partition, kind shards", "PartitionFile": "learning.partition, kind file",
    "OwnPartition": 'learning.partition, kind "package.module:function"', "Model": "learning.model, as a table",
    "NoOptimiser": "learning.optimiser, kind none", "MomentumOptimiser": "learning.optimiser, kind momentum",
    "AdamOptimiser": "learning.optimiser, kind adam", "Evaluation": "learning.evaluation", "Selection": "[selection]",
    "Allocation": "[allocation]", "Rounds": "[rounds]", "Server": "[server]", "End": "[end]",
    "Flower": "[flower]",
}
DISTRIBUTION = re.compile(r"(Uniform|Normal|LogNormal|Exponential|OneOf)")


def scenario() -> str:
    """Every key of a scenario file, out of the JSON Schema."""
    from netsim.scenario import json_schema

    schema = json_schema()
    defs = schema["$defs"]
    unplaced = [name for name in defs if name not in TABLES and not DISTRIBUTION.match(name)]
    if unplaced:
        raise SystemExit(f"docs/make_reference.py: add {', '.join(unplaced)} to TABLES, with its place in a scenario")
    needed = {}                 # of the tables at the top, whose keys a base may have given
    for name, keys in schema["else"]["properties"].items():
        place = schema["properties"][name]
        table = place.get("$ref", place.get("items", {}).get("$ref", "")).removeprefix("#/$defs/")
        needed[table] = set(keys.get("items", keys)["required"])
    top = {name: entry for name, entry in schema["properties"].items() if "$ref" not in entry and name != "population"}
    parts = [
        "# Scenario keys", NOTE,
        "A scenario is a TOML file. Quantities are text with a unit (`\"20 MHz\"`), and a bare number is refused where "
        "a unit belongs. A key that says *drawn* takes one value for all devices, or a distribution:\n",
        *distributions(defs), "Units:\n", *unit_table(),
        "`netsim check FILE` says what is wrong with a file, `netsim check FILE --toml` prints it with all defaults "
        "filled in, and `netsim schema` prints what follows as JSON Schema, for editors.\n",
        "## At the top\n", key_table(top, set()),
    ]
    for name, place in TABLES.items():
        table = defs[name]
        parts += [f"## {place}\n" if place.startswith("[") else f"### {place}\n", f"{table['description']}\n",
                  key_table(table["properties"], needed.get(name, set(table.get("required", ()))))]
        if table.get("additionalProperties"):
            parts.append("All other keys are options: see [methods](methods.md).\n")
    return "\n".join(parts)


def distributions(defs: dict[str, Any]) -> Iterator[str]:
    """The keys of each distribution, read off the one for energies."""
    yield "| `dist` | keys |\n|---|---|"
    for kind in ("Uniform", "Normal", "LogNormal", "Exponential", "OneOf"):
        table = defs[f"{kind}Energy"]
        required = set(table["required"]) - {"dist"}
        others = [name for name in table["properties"] if name not in required and name != "dist"]
        listed = ", ".join(f"`{name}`" for name in table["properties"] if name in required)
        optional = f"; also {', '.join(f'`{name}`' for name in others)}" if others else ""
        yield f"| `\"{table['properties']['dist']['const']}\"` | {listed}{optional} |"
    yield ""


def unit_table() -> Iterator[str]:
    """The units of each dimension, out of the patterns that the schema checks them by."""
    from netsim.base import units

    yield "| | units |\n|---|---|"
    for dimension in ("length", "frequency", "power", "energy", "time", "data size", "noise density", "gain",
                      "decibels"):
        known = re.findall(r"\(([^()?:]+)\)", units.pattern(dimension))[-1].split("|")
        yield f"| {dimension} | {', '.join(f'`{unit}`' for unit in sorted(known, key=str.casefold))} |"
    yield ""


def key_table(keys: dict[str, Any], required: set[str]) -> str:
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for name, entry in keys.items():
        if name == "kind" and "const" in entry:       # which table it is, as its heading says
            continue
        default = "**needed**" if name in required else shown(entry.get("default"))
        rows.append(f"| `{name}` | {value_of(entry)} | {default} | {entry.get('description', '')} |".replace("\\", ""))
    return "\n".join(rows) + "\n" if len(rows) > 2 else ""


def value_of(entry: dict[str, Any]) -> str:
    """What a key takes, in a few words."""
    options = entry.get("anyOf") or entry.get("oneOf")
    if options:
        words: list[str] = []
        for option in options:
            drawn = DISTRIBUTION.match(option.get("$ref", "").rpartition("/")[2])
            word = "*drawn*" if drawn else value_of(option)
            if word and word not in words:
                words.append(word)
        return " or ".join(word for word in words if word != "*drawn*") + (", *drawn*" if "*drawn*" in words else "")
    if "enum" in entry:
        return ", ".join(f'`"{choice}"`' for choice in entry["enum"])
    if "const" in entry:
        return f'`"{entry["const"]}"`'
    if "examples" in entry:
        return f"{entry['title']}, such as `\"{entry['examples'][0]}\"`"
    if "$ref" in entry:
        return "a table"
    kind = entry.get("type")
    if kind == "array":
        return f"a list: {value_of(entry['items'])}" if "items" in entry and "prefixItems" not in entry else "a pair"
    if kind in ("number", "integer"):
        signs = {"exclusiveMinimum": "above", "minimum": "at least", "exclusiveMaximum": "below", "maximum": "at most"}
        bounds = [f"{sign} {entry[key]:g}" for key, sign in signs.items() if abs(entry.get(key, 1e9)) < 1e9]
        return " ".join(["whole number" if kind == "integer" else "number", *bounds])
    return {"string": "text", "null": "", "object": "a table"}.get(str(kind), "")


def shown(default: Any) -> str:
    if default is None or default == "":
        return ""
    if isinstance(default, dict):
        return ", ".join(f"{name} {shown(value)}" for name, value in default.items() if value is not None)
    return f"`{default}`"


# ---- methods ----

def methods() -> str:
    """Everything that a scenario names, with what can be set of each."""
    from netsim.allocation import METHODS as ALLOCATION
    from netsim.analysis.export import FORMATS
    from netsim.cell.schedulers import SCHEDULERS
    from netsim.learning.aggregation import AGGREGATIONS
    from netsim.learning.datasets import DATASETS
    from netsim.learning.partition import PARTITIONS
    from netsim.models import MODELS
    from netsim.selection import METHODS as SELECTION
    from netsim.server import SERVERS

    parts = ["# Methods", NOTE,
             "What is named here can also be code of your own, `\"package.module:Name\"`, of "
             "[a package made for netsim](../guides/own-allocation.md#a-package-for-netsim).\n",
             "## Allocation\n",
             "`[allocation] method = …`, or `netsim allocate --method NAME:option=value`. One of your own is "
             'a function: see [the guide](../guides/own-allocation.md).\n', *registered(ALLOCATION),
             "\n## Selection\n", "`[selection] method = …`. One of your own is a class: see "
             "[the guide](../guides/own-selection.md). *Needs* says what only learning gives.\n",
             "| method | what it does | options | needs |", "|---|---|---|---|"]
    for name, entry in SELECTION.items():
        needs = ", ".join(sorted(SELECTION.find(name).needs))
        parts.append(f"| `{name}` | {entry.summary} | {options_in_words(SELECTION, name)} | {needs} |")
    for title, where, registry in (
            ("Models", "`[learning] model = …`, or with options `model = { name = …, … }`", MODELS),
            ("Datasets", "`[learning] dataset = …`", DATASETS), ("Splits", "`learning.partition.kind`", PARTITIONS),
            ("Aggregations", "`learning.aggregation`", AGGREGATIONS),
            ("Servers", "`[server] kind = …`; see [asynchronous servers](../guides/asynchronous-servers.md)", SERVERS),
            ("Schedulers", "`cell.scheduler`", SCHEDULERS),
            ("Export formats", "`netsim export RUN --format NAME`", FORMATS)):
        parts += [f"\n## {title}\n", f"{where}.\n", *registered(registry)]
    return "\n".join(parts) + "\n"


def registered(registry: Any) -> Iterator[str]:
    """A registry as a table."""
    if registry.table and any(options_in_words(registry, name) for name in registry):
        yield "| name | what it does | options |\n|---|---|---|"
        for name, entry in registry.items():
            yield f"| `{name}` | {entry.summary} | {options_in_words(registry, name)} |"
    else:
        yield "| name | what it is |\n|---|---|"
        for name, entry in registry.items():
            yield f"| `{name}` | {entry.summary} |"


def options_in_words(registry: Any, name: str) -> str:
    """What can be set of one, with defaults and meanings; nothing of what a key alone names."""
    from netsim.base.options import options_of

    found = registry.find(name)
    if registry.key.endswith((".dataset", ".aggregation")):
        return ""
    words = []
    for option in options_of(found, registry.given):
        said = "" if option.needed or option.default in (None, float("inf")) else f" = {shown_default(option.default)}"
        words.append(f"`{option.name}`{said}" + (f": {option.description}" if option.description else ""))
    return "; ".join(words)


def shown_default(default: Any) -> str:
    return f"{default:g}" if isinstance(default, float) else repr(default)


# ---- commands ----

def commands() -> str:
    """Every command with its arguments and options."""
    from netsim.cli import app
    from netsim.cli.help_pages import command_texts

    parts = ["# Commands", NOTE,
             "`netsim COMMAND --help` says the same. Exit codes: 0 done; 2 the input is at fault, with one message on "
             "standard error; 130 interrupted or 143 terminated, and what was simulated can be resumed.\n"]
    for command in command_texts(app):
        parts += [f"## netsim {command.name}\n", f"{command.summary}\n", *map(paragraph, command.paragraphs),
                  "| | |", "|---|---|",
                  *(f"| {spelling(parameter)} | {meaning(parameter)} |" for parameter in command.parameters), ""]
    return "\n".join(parts)


def paragraph(text: str) -> str:
    """As Markdown; the help keeps the lines of all paragraphs but the first."""
    indented = text.startswith(" ")
    return f"```\n{inspect.cleandoc(text)}\n```\n" if indented else text.strip().replace("\n", "\\\n") + "\n"


def spelling(parameter: ParameterText) -> str:
    takes = f" {parameter.takes}" if parameter.takes else ""
    return ", ".join(f"`{name}{takes}`" for name in parameter.names) or f"`{parameter.takes}`"


def meaning(parameter: ParameterText) -> str:
    text = parameter.meaning.replace("|", "\\|")
    return f"{text} Default: {parameter.default}." if parameter.default else text


# ---- trace ----

def trace() -> str:
    """Columns of the trace and of the frames that are made of it."""
    import netsim.trace.run_directory
    import netsim.trace.schema
    from netsim.analysis.breakdown import Breakdown
    from netsim.analysis.critical_path import CriticalPath
    from netsim.analysis.explain import Explanation
    from netsim.run import Run
    from netsim.trace.schema import DROPS, OVER, TABLES, polars_schema

    types = {table: ", ".join(f"`{name}` {kind}" for name, kind in polars_schema(table).items()) for table in TABLES}
    return "\n".join([
        "# Trace and run directory", NOTE,
        "[Reading a trace](../guides/reading-a-trace.md) shows how to use what is listed here.\n",
        "## The run directory\n", literal(netsim.trace.run_directory.__doc__),
        "## Rows, links and jobs\n", literal(netsim.trace.schema.__doc__),
        *(f"Types in `{table}/`: {columns}.\n" for table, columns in types.items()),
        f"Why a device of a cohort did not deliver: {', '.join(f'`{drop}`' for drop in DROPS)}; and `{OVER}`, which "
        "does not count as a drop-out: the run ended while the job was in progress.\n",
        "## `netsim.Run`\n", literal(Run.__doc__), "## `run.breakdown()`\n", literal(Breakdown.__doc__),
        "## `run.critical_path()`\n", literal(CriticalPath.__doc__),
        "## `run.explain()`\n", literal(Explanation.__doc__),
    ])


def literal(doc: str | None) -> str:
    """A docstring as it stands, since its columns are aligned."""
    return f"```text\n{inspect.cleandoc(doc or '')}\n```\n"


# ---- Python ----

PUBLIC = {
    "netsim": ("load_scenario", "simulate", "load_run", "Run", "run_sweep", "load_sweep_results", "SweepResults",
               "calibrate", "Calibration", "predict", "Prediction", "InputError"),
    "netsim.allocation": ("Problem", "Plan", "Slots", "allocate", "Infeasible", "plan_for", "plan_in_slots",
                          "LinkModel", "Shannon"),
    "netsim.allocation.infeasibility": ("find_infeasibility", "Infeasibility", "largest_feasible", "budget_scaling"),
    "netsim.allocation.sensitivities": ("prices_of", "ShadowPrices"),
    "netsim.selection": ("Method", "View", "LearningView", "Choice"),
    "netsim.selection.method": ("highest", "draw"),
    "netsim.cell": ("Device", "Uplink", "Battery", "Job", "JobPlan", "Interruption", "Planned", "Equal", "Adaptive",
                    "Tdma"),
    "netsim.cell.schedulers": ("Scheduler",),
    "netsim.allocation.equal_finish": ("ActiveUploads",),
    "netsim.environment.channel": ("GainTimeline",),
    "netsim.server.strategy": ("Strategy", "Updates"),
    "netsim.server.server": ("RunProgress",),
    "netsim.learning.dataset_files": ("Dataset",),
    "netsim.models": ("build_model", "CNN", "MnistCNN", "CifarCNN", "FashionCNN"),
    "netsim.physics": ("path_gain", "fdma_rate", "bandwidth_for_rate", "compute_time", "compute_energy", "upload_time",
                       "upload_energy"),
}
MEMBERS = {         # of classes whose other methods serve netsim itself
    "Device": ("perform", "interrupt"), "Uplink": ("transmit",), "Battery": ("level_j",),
    "Job": ("arrived", "energy_j", "upload_j"), "ShadowPrices": (), "Slots": ("start_s", "most_hz"),
    "Problem": ("snr_hz", "compute_weight", "power_range_w", "compute_energy_j", "called", "subset", "with_power",
                "cpu_for"),
    "Shannon": ("rate", "bandwidth"), "View": ("alive",),
    "Planned": (), "Equal": (), "Adaptive": (), "Tdma": (),
}
PLUG_INS = (        # what is implemented, how a scenario names it, and where it is described
    ("Allocation method", "`allocation.method`", "a function of a problem that returns a plan, see `allocate`",
     "netsim.allocation"),
    ("Link model", "`cell.link.model`", "a class with the methods of `LinkModel`", "netsim.allocation"),
    ("Path loss", "`cell.path_loss.model`", "a function of an array of distances in metres that returns losses in dB; "
     "further parameters are options", "netsim.physics"),
    ("Selection method", "`selection.method`", "a subclass of `Method`, or a function of `(view, rng)`",
     "netsim.selection"),
    ("Scheduler", "`cell.scheduler`", "a class with the members of `Scheduler`", "netsim.cell.schedulers"),
    ("Channel", "`cell.channel`", "a class with the methods of `GainTimeline`", "netsim.environment.channel"),
    ("Server", "`server.kind`", "a subclass of `Strategy`", "netsim.server.strategy"),
    ("Model", "`learning.model`", "a `torch.nn.Module` class called with `(shape, classes)`", "netsim.models"),
    ("Dataset", "`learning.dataset`", "a function that returns a `Dataset`", "netsim.learning.dataset_files"),
)
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)


def python() -> str:
    """Signatures and docstrings of the public API and of the interfaces that plug-ins implement."""
    from importlib import import_module

    parts = ["# Python", NOTE,
             "All values are SI units: seconds, joules, hertz, watts, bits. Arrays are NumPy, tables are polars. "
             "N is the number of devices, S the number of devices in a round, P the number of weights of a model.\n",
             "Own code takes part through these interfaces; a scenario names it as `\"package.module:Name\"`:\n",
             "| plug-in | key | implements | section |", "|---|---|---|---|",
             *(f"| {name} | {key} | {what} | [{module}](#{module.replace('.', '')}) |"
               for name, key, what, module in PLUG_INS), ""]
    for module_name, names in PUBLIC.items():
        module = import_module(module_name)
        parts.append(f"## {module_name}\n")
        for name in names:
            parts += [f"### {name}\n", *described(name, getattr(module, name))]
    return "\n".join(parts)


def described(name: str, thing: Any) -> Iterator[str]:
    """A function, or a class with its fields, properties and methods."""
    if not isinstance(thing, type):
        yield f"```python\n{signature(name, thing)}\n```\n"
        yield prose(thing.__doc__)
        return
    call = constructor(name, thing)
    if call:
        yield f"```python\n{call}\n```\n"
    yield prose(thing.__doc__)
    members = members_of(name, thing)
    values = {member: value for member, value in members.items() if isinstance(value, property | cached_property)}
    if values:
        yield "**Properties**\n"
        yield "\n".join(f"- `{member}`: {summary(value)}" for member, value in values.items()) + "\n"
    for member, value in members.items():
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        doc = inspect.getdoc(getattr(thing, member)) if inspect.isfunction(function) else None
        if doc:
            yield f"#### {name}.{member}\n"
            yield f"```python\n{signature(member, function)}\n```\n"
            yield prose(doc)


def members_of(name: str, thing: type) -> dict[str, Any]:
    """The public members of a class, without those of a base class that has a section of its own."""
    listed = {each for names in PUBLIC.values() for each in names} - {name}
    members = {member: value for owner in reversed(thing.__mro__)
               if owner.__module__.startswith("netsim") and owner.__name__ not in listed
               for member, value in vars(owner).items()
               if not member.startswith("_") or (member == "__call__" and inspect.isfunction(value))}
    return {member: value for member, value in members.items() if member in MEMBERS.get(name, members)}


def constructor(name: str, thing: type) -> str:
    """The call that makes an object; nothing of an interface, or of a class that takes nothing."""
    own = [owner for owner in thing.__mro__ if "__init__" in vars(owner) and owner.__module__.startswith("netsim")]
    if dataclasses.is_dataclass(thing) and not SECTION.search(inspect.cleandoc(thing.__doc__ or "")):
        return fields_of(name, thing)
    if getattr(thing, "_is_protocol", False) or not (own or hasattr(thing, "_fields")):
        return ""
    text = signature(name, thing).removeprefix("def ").replace(" -> None", "").replace("\n) -> None", "\n)")
    return "" if text == f"{name}()" else text


def fields_of(name: str, thing: type) -> str:
    """The fields of a data class with the comments beside them."""
    lines = [line.strip() for line in inspect.getsource(thing).splitlines() if re.match(r"    \w+: ", line)]
    return f"{name}(\n" + "\n".join(f"    {line}" for line in lines) + "\n)" if lines else ""


def summary(thing: Any) -> str:
    """The first paragraph of a docstring, in one line."""
    text = inspect.getdoc(thing.func if isinstance(thing, cached_property) else thing) or ""
    return " ".join(inline(text.partition("\n\n")[0]).split())


def inline(text: str) -> str:
    """Roles and literals of reStructuredText as Markdown."""
    text = re.sub(r":\w+:`~?([^`]+)`", lambda found: f"`{found[1].rpartition('.')[2]}`", text)
    return text.replace("``", "`")


def prose(doc: str | None) -> str:
    """A docstring as Markdown: paragraphs and examples, then its numpydoc sections; aligned columns stay aligned."""
    text = inspect.cleandoc(doc or "")
    if re.search(r"^``\w+``  ", text, re.MULTILINE) and not SECTION.search(text):
        return literal(doc)
    first, *rest = SECTION.split(text)
    parts = [paragraphs(first)]
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        shown_as = paragraphs(body) if title in ("Examples", "Notes", "References", "See Also") else entries(body)
        parts += [f"**{title}**\n", shown_as]
    return "\n".join(parts)


def paragraphs(text: str) -> str:
    """Paragraphs, with examples as code."""
    return "\n\n".join(f"```python\n{part}\n```" if part.startswith(">>>") else inline(part)
                       for part in text.strip().split("\n\n")) + "\n"


def entries(body: str) -> str:
    """The entries of a numpydoc section: a table of name, type and meaning, or a list where types alone are given."""
    found: list[tuple[str, str, list[str]]] = []
    for line in body.strip("\n").splitlines():
        if line and not line.startswith(" "):
            names, _, kind = line.partition(" : ")
            found.append((names.strip(), kind.strip(), []))
        elif found:
            found[-1][2].append(line.strip())
    if not any(kind for _, kind, _ in found):
        return "\n".join(f"- {inline(names)}: {inline(' '.join(meaning))}" for names, _, meaning in found) + "\n"
    rows = ["| name | type | meaning |", "|---|---|---|"]
    for names, kind, meaning in found:
        listed = ", ".join(f"`{name.strip()}`" for name in names.split(","))
        cells = (inline(text).replace("|", "\\|") for text in (listed, kind, " ".join(meaning)))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def signature(name: str, thing: Any) -> str:
    """``def name(...)``, a line for each argument where one line is too long."""
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", f"def {name}{inspect.signature(thing)}")
    text = re.sub(r"ForwardRef\('([^']*)'\)", r"\1", text)
    text = re.sub(r"<factory>|<function [^>]*>|[\w.]+\(efficiency=1.0, cap=inf\)", "...", text)
    if len(text) <= 100:
        return text
    text = re.sub(r", (?=\w+:|\*)", ",\n    ", text).replace("(", "(\n    ", 1)
    return text.replace(") ->", "\n) ->") if ") ->" in text else text[:-1] + "\n)"


# ---- errors ----

def errors() -> str:
    """The codes of InputError with an example each, out of the table of refusals that the tests provoke."""
    import sys

    from netsim.base.error_codes import ERROR_CODES

    sys.path.insert(0, str(HERE.parent / "tests" / "refusals"))
    import refusals

    said = json.loads(refusals.WORDINGS.read_text(encoding="utf-8"))
    first = sorted(refusals.rows().items(), key=lambda row: not row[0].startswith(("scenario", "command")))
    examples = {code: said[name].splitlines()[0] for name, (_, code, _) in reversed(first)}
    parts = [
        "# Errors", NOTE,
        "Input at fault ends a command with exit code 2 and one message on standard error; in Python it raises "
        "`netsim.InputError`. The message is `source: key: problem (found X; expected Y). Hint.` The error has these "
        "parts as attributes: `code` (below), `key` (of the scenario, an option, an argument, or a file), `found`, "
        "`expected`, `hint`, and `source` (the file or `--set` that gave the key). Several faults of a scenario are "
        "one `SeveralInputErrors`, a line each, with all of them in its attribute `errors`.\n",
        "| code | problem | an example |", "|---|---|---|",
    ]
    for code, problem in ERROR_CODES.items():
        example = examples.get(code, "").replace("FOLDER/", "").replace("|", "\\|")
        parts.append(f"| `{code}` | {problem} | {f'`{example}`' if example else ''} |")
    return "\n".join(parts) + "\n"


def main() -> None:
    folder = HERE / "reference"
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

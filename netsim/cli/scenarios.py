"""The commands about scenarios and data: `check`, `schema`, `scenarios`, `models`, `devices`, `dataset`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from netsim.base.errors import InputError, quoted
from netsim.base.pluralize import pluralize
from netsim.cli.app import (
    AllowImport,
    AsJson,
    Every,
    Force,
    Overrides,
    ScenarioName,
    Seed,
    app,
    describing,
    names_at,
    writable,
)
from netsim.cli.help_pages import HelpPage, HelpPages
from netsim.cli.show_runs import print_names, print_scenario

MOST_PIXELS = 4096      # channels, and pixels of a side
dataset = typer.Typer(cls=HelpPages, no_args_is_help=True, help="List, download and check datasets.")


@describing()
def check(
    scenario: ScenarioName,
    overrides: Overrides = [],  # noqa: B006
    as_toml: Annotated[bool, typer.Option("--toml", help="Print the scenario with all defaults filled in.")] = False,
    upgrade: Annotated[bool, typer.Option(
        "--upgrade", help="Print the file with the new spellings of renamed keys, comments and layout kept.")] = False,
    allow_import: AllowImport = False,
) -> None:
    """Validate a scenario without running it; a model that it names is built and tested.

    Files with old spellings of keys stay valid. To rewrite one:  netsim check --upgrade old.toml > new.toml
    """
    from netsim.scenario import load_scenario
    from netsim.validation import check_whole

    if upgrade and (overrides or as_toml):
        raise InputError("conflict", "--upgrade", expected="neither --set nor --toml", hint="It prints the file itself")
    loaded = load_scenario(scenario, overrides)
    check_whole(loaded, allow_import=allow_import)
    if upgrade:
        _print_upgraded(scenario)
    elif as_toml:
        print(loaded.to_toml(), end="")
    else:
        print_scenario(loaded)
        renamed = loaded.said.files[-1].written
        if renamed:
            print(f"{pluralize(len(renamed), 'key')} in an old spelling, which stays valid; `netsim check --upgrade` "
                  "prints the file with the new ones")


def _print_upgraded(scenario: str) -> None:
    from netsim.scenario.loading import upgraded_text

    text, kept = upgraded_text(scenario)
    if not kept:
        print("note: comments and layout are lost, because a key moves out of an inline table", file=sys.stderr)
    print(text, end="")


@describing()
def schema() -> None:
    """Print the JSON Schema of scenario files, for completion and checks in editors."""
    from netsim.scenario import json_schema

    print(json.dumps(json_schema(), indent=2))


@describing()
def scenarios() -> None:
    """List the built-in scenarios."""
    from netsim.scenario import builtin_scenarios, load_scenario

    known = (load_scenario(name) for name in builtin_scenarios())
    print_names(("name", "devices", "description"),
                [(scenario.name, str(scenario.size), scenario.description) for scenario in known])


@describing()
def models(
    names: Annotated[list[str] | None, typer.Argument(
        metavar="[MODEL]...", help="Built-in names, or package.module:Class of your own.",
        show_default="all built-in models", autocompletion=names_at("netsim.learning.registries:MODELS"))] = None,
    shape: Annotated[str | None, typer.Option(
        metavar="C,H,W", help="Channels, height and width of an image.",
        show_default="the built-in model's own; 3,32,32 for others")] = None,
    classes: Annotated[int, typer.Option(min=2, metavar="N", help="Number of classes.")] = 10,
    allow_import: AllowImport = False,
    as_json: AsJson = False,
) -> None:
    """List models for `learning.model` with their parameters and FLOP per sample, forward and backward."""
    from netsim.learning.flops import describe_model
    from netsim.learning.registries import MODELS

    for name in names or ():
        MODELS.permit(name, allow_import=allow_import)
    images = None if shape is None else _shape(shape)
    found = [describe_model(name, images, classes) for name in names or MODELS]
    if as_json:
        print(json.dumps(found, indent=2))
        return
    print_names(("learning.model", "parameters", "FLOP per sample", "description"),
                [(each["name"], f"{each['parameters']:,}", f"{each['flops_per_sample']:,}",
                  MODELS[each["name"]].summary if each["name"] in MODELS else "") for each in found])
    print('your own model: "package.module:Class", see the guides')


@describing()
def devices(
    profiles: Annotated[str | None, typer.Option(
        metavar="FILE", help="A CSV file of profiles, or package:file.csv of an installed package.",
        show_default="netsim's own")] = None,
    every: Every = False,
    as_json: AsJson = False,
) -> None:
    """List device profiles for `profile` of a population: measured values with uncertainty and source."""
    from netsim.scenario.profiles import load_profiles

    known = load_profiles(profiles)
    if as_json:
        print(json.dumps([{"name": name, "values": {value.key: {
            field: text for field, text in vars(value).items() if field != "key" and text} for value in values}}
            for name, values in known.items()], indent=2))
        return
    rows = [(name if not place else "", value.key, value.value, f"{value.low} to {value.high}" if value.low else "",
             *((value.source, value.licence, value.note) if every else ()))
            for name, values in known.items() for place, value in enumerate(values)]
    print_names(("profile", "key", "value", "uncertainty", *(("source", "licence", "note") if every else ())), rows)
    print("--all prints sources, licences and notes; your own profiles: see the guide Real devices")


def _shape(text: str) -> tuple[int, int, int]:
    """Return ``3,32,32`` as numbers."""
    parts = [int(part) if part.strip().isdecimal() else 0 for part in text.split(",")]
    if len(parts) != 3 or not all(0 < part <= MOST_PIXELS for part in parts):
        raise InputError("malformed", "--shape", quoted(text), "channels, height and width, such as 3,32,32")
    return parts[0], parts[1], parts[2]


app.add_typer(dataset, name="dataset", rich_help_panel="Scenarios and data")


@dataset.command("list", cls=HelpPage, rich_help_panel="Commands")
@app.command("datasets", cls=HelpPage, hidden=True)
def list_datasets() -> None:
    """List the datasets that devices can train on, for `learning.dataset`."""
    from netsim.learning.registries import DATASETS

    print_names(("learning.dataset", "description"), [(name, entry.summary) for name, entry in DATASETS.items()])
    print("`netsim dataset fetch NAME` downloads and checks a dataset")


@dataset.command("fetch", cls=HelpPage, rich_help_panel="Commands")
@app.command("data", cls=HelpPage, hidden=True)
def fetch_dataset(
    name: Annotated[str, typer.Argument(
        metavar="NAME", help="digits (built in), mnist, fashion-mnist, cifar10, or image-folder.",
        autocompletion=names_at("netsim.learning.datasets:DATASETS"))],
    root: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the data.")] = Path("data"),
    partition: Annotated[str | None, typer.Option(
        metavar="KIND", help="Split the training data over devices, e.g. majority:sigma=0.8, two-class, iid, "
        "dirichlet:alpha=0.5, shards:per_device=2 or file:path=split.json.")] = None,
    devices: Annotated[int, typer.Option(min=1, metavar="N", help="Number of devices of the split.")] = 100,
    samples: Annotated[int | None, typer.Option(
        min=1, metavar="D", help="Samples that each device holds.", show_default="as the split gives")] = None,
    seed: Seed = 0,
    figure: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Draw the split, classes by devices (PNG, SVG or PDF).")] = None,
    allow_import: AllowImport = False,
    force: Force = False,
) -> None:
    """Download and check a dataset, and describe it in one line; without a network, explain what to do."""
    from netsim.learning.datasets import DATASETS, describe, fetch

    DATASETS.permit(name, allow_import=allow_import)
    if figure and not partition:
        raise InputError("needs", "--figure", expected="--partition too, e.g. --partition majority:sigma=0.8")
    fetch(name, root)
    print(describe(name, root))
    if partition:
        from netsim.learning.partition import describe_split, draw_split, split_dataset

        split = split_dataset(name, root, partition, devices, samples, seed, allow_import=allow_import)
        print(describe_split(split))
        if figure:
            draw_split(split, writable(figure, force=force))
            print(f"figure: {figure}")

"""The commands about scenarios and data: `check`, `schema`, `scenarios`, `models`, `datasets`, `data`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from netsim.base.errors import InputError
from netsim.cli.app import AllowImport, Force, Overrides, ScenarioName, Seed, describing, names_at, writable


@describing()
def check(
    scenario: ScenarioName,
    overrides: Overrides = [],  # noqa: B006
    as_toml: Annotated[bool, typer.Option("--toml", help="Print the scenario with all defaults filled in.")] = False,
    allow_import: AllowImport = False,
) -> None:
    """Validate a scenario without running it; a model that it names is built and tested."""
    from netsim.cli.show_runs import print_scenario
    from netsim.prepare import check_whole
    from netsim.scenario import load_scenario

    loaded = load_scenario(scenario, overrides)
    check_whole(loaded, allow_import=allow_import)
    if as_toml:
        print(loaded.to_toml(), end="")
    else:
        print_scenario(loaded)


@describing()
def schema() -> None:
    """Print the JSON Schema of scenario files, for completion and checks in editors."""
    from netsim.scenario import json_schema

    print(json.dumps(json_schema(), indent=2))


@describing()
def scenarios() -> None:
    """List the built-in scenarios."""
    from netsim.cli.show_runs import print_names
    from netsim.scenario import builtin_scenarios, load_scenario

    known = (load_scenario(name) for name in builtin_scenarios())
    print_names(("name", "devices", "description"),
                [(scenario.name, str(scenario.size), scenario.description) for scenario in known])


@describing()
def models() -> None:
    """List the models that devices can train, for `learning.model`."""
    from netsim.cli.show_runs import print_names
    from netsim.learning.named import MODELS

    print_names(("learning.model", "description"), [(name, entry.summary) for name, entry in MODELS.items()])
    print('your own model: "package.module:Class", see the guides')


@describing()
def datasets() -> None:
    """List the datasets that devices can train on, for `learning.dataset`."""
    from netsim.cli.show_runs import print_names
    from netsim.learning.named import DATASETS

    print_names(("learning.dataset", "description"), [(name, entry.summary) for name, entry in DATASETS.items()])
    print("`netsim data NAME` downloads and checks a dataset")


@describing()
def data(
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

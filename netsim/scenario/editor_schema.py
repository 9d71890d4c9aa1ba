"""The JSON Schema of scenario files."""

from __future__ import annotations

import json
from typing import Any

from netsim.scenario.schema import Scenario


def _needed_without_a_base(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove and return the required keys of the top-level tables: a base may set them."""
    needed: dict[str, Any] = {"required": schema.pop("required"), "properties": {}}
    for name, place in schema["properties"].items():
        table = place.get("$ref", place.get("items", {}).get("$ref", "")).removeprefix("#/$defs/")
        keys = schema["$defs"].get(table, {}).pop("required", None)
        if keys is not None:
            inside = {"required": keys}
            needed["properties"][name] = {"items": inside} if "items" in place else inside
    return needed


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of scenario files, for editors and other tools."""
    schema = Scenario.model_json_schema()
    names = {old: table["title"].removesuffix("Table") for old, table in schema["$defs"].items() if "title" in table}
    text = json.dumps(schema)
    for old, new in sorted(names.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(f'"{old}"', f'"{new}"').replace(f'"#/$defs/{old}"', f'"#/$defs/{new}"')
    named: dict[str, Any] = json.loads(text)
    named["properties"]["base"] = {
        "type": "string", "description": "a scenario file or built-in scenario that this one changes"}
    for table in ("Cpu", "Radio"):      # a profile may give what they need
        del named["$defs"][table]["required"]
    named |= {"if": {"required": ["base"]}, "else": _needed_without_a_base(named)}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "netsim scenario", **named}

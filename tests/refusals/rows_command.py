"""The command line: words that lead nowhere, files that may not be written."""

from __future__ import annotations

from refusals import Row, command
from small_scenario import FLEET

ROWS: dict[str, Row] = {
    "a unit": (command("run tiny --set cell.bandwidth=20mJ"), "wrong-unit", "cell.bandwidth"),
    "a method": (command("run tiny --set allocation.method=soa"), "unknown-name", "allocation.method"),
    "a selection": (command("run tiny --set selection.method=fedagv"), "unknown-name", "selection.method"),
    "an option of a selection": (command("run tiny --set selection.colour=red"), "unknown-option", "selection.colour"),
    "an option of a method": (command("allocate tiny --method sao:speed=9"), "unknown-option", "allocation.speed"),
    "a method to compare": (command("allocate tiny --method best"), "unknown-name", "allocation.method"),
    "a server": (command("check tiny --set server.kind=fedbuf"), "unknown-name", "server.kind"),
    "a dataset": (command("run quickstart --set learning.dataset=digitz"), "unknown-name", "learning.dataset"),
    "a dataset to fetch": (command("data digitz"), "unknown-name", "learning.dataset"),
    "a folder of data": (command("data mnist --root ~nobody-here/x"), "no-such-file", "the data folder"),
    "a split": (command("data digits --partition majorty"), "unknown-name", "learning.partition.kind"),
    "an export": (command("export nowhere --format perfeto -o x"), "unknown-name", "--format"),
    "code that is not made for netsim": (command("run tiny --set selection.method=os:system"),
                                         "import-refused", "selection.method"),
    "weights without learning": (command("run quickstart --no-learning"), "needs", "selection.method"),
    "chances without a draw": (command("check quickstart --set learning.aggregation=unbiased"),
                               "needs", "learning.aggregation"),
    "a line of a fleet": (command("run fleet.toml", {
        "fleet.toml": FLEET, "fleet.csv": "power,budget\n23 dBm,20 mJ\n23 dBm,20 Hz\n"}),
        "wrong-unit", 'column "budget"'),
    "a device for a file": (command("run tiny --set cell.gain_trace=/dev/zero"), "unreadable", "/dev/zero"),
    "no plan": (command("allocate tiny --set population.node.budget=1uJ"), "infeasible", "allocation.method"),
    "a figure of no split": (command("data digits --figure x.png"), "needs", "--figure"),
    "a figure that is there": (command("allocate tiny --figure x.png", {"x.png": ""}), "exists", "x.png"),
    "a figure in no folder": (command("allocate tiny --figure no/x.png"), "no-such-file", "no"),
    "a folder for a file": (command("allocate tiny --figure ."), "unwritable", "."),
    "two formats": (command("breakdown nowhere --json --csv"), "conflict", "--json"),
    "a comparison without a report": (command("sweep x.toml --against a"), "needs", "--against"),
    "a comparison without a sweep": (command("report nowhere --against a"), "needs", "--against"),
    "to overwrite no sheets": (command("lab --force"), "needs", "--force"),
    "sheets into a file": (command("lab --sheets x", {"x": ""}), "exists", "x"),
}

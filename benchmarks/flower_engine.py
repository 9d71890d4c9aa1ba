"""One app in Flower's engine, repeatable: python flower_engine.py JSON; used by flower_apps.py.

JSON has the two components, the run configuration and the number of nodes. What Flower's engine leaves to chance is
fixed as netsim fixes it: ids of nodes, their order, the order of replies, and the seeds of the global generators, by
node and number of the message.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation

from netsim.base.rng import stream
from netsim.flower.seeding import seed_generators
from netsim.flower.version_check import FIRST_NODE

SEED = 0                   # that of `netsim flower` without --seed
WHAT = json.loads(sys.argv[1])
CLIENT, CONFIG = resolve_name(WHAT["clientapp"]), WHAT["config"]


class ConfiguredClient(ClientApp):  # type: ignore[misc]
    """The app's ClientApp with its run configuration, seeded for each message."""

    def __call__(self, message: Message, context: Context) -> Message:
        device = int(context.node_config["partition-id"])
        answers = Path(os.environ["FLOWER_ANSWERS"], f"{device}.jsonl")
        count = len(answers.read_text().splitlines()) if answers.exists() else 0
        seed_generators(stream(SEED, "flower client", count, device))
        given, context.run_config = context.run_config, CONFIG
        try:
            return CLIENT(message, context)
        finally:
            context.run_config = given


class ConfiguredServer(ServerApp):  # type: ignore[misc]
    """The app's ServerApp with its run configuration."""

    def __call__(self, grid: Any, context: Context) -> None:
        receive, nodes = grid.send_and_receive, grid.get_node_ids

        def in_order(messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
            sent = list(messages)
            replies = receive(sent, timeout=timeout)
            places = {message.metadata.dst_node_id: place for place, message in enumerate(sent)}
            return sorted(replies, key=lambda reply: places[reply.metadata.src_node_id])

        grid.send_and_receive, grid.get_node_ids = in_order, lambda: sorted(nodes())
        context.run_config = CONFIG
        while len(list(nodes())) < WHAT["nodes"]:      # they register while the ServerApp starts
            time.sleep(0.05)
        server = resolve_name(WHAT["serverapp"])
        own_generator()
        seed_generators(stream(SEED, "flower server"))
        server(grid, context)


def own_generator() -> None:
    """Give this thread a generator of its own behind the functions of ``random``, which other threads of the engine use
    at any time."""
    mine, thread = random.Random(), threading.get_ident()

    def chosen(own: Callable[..., Any], shared: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **options: (own if threading.get_ident() == thread else shared)(*args, **options)

    for name in ("seed", "random", "sample", "shuffle", "choice", "choices", "randint", "randrange", "uniform"):
        setattr(random, name, chosen(getattr(mine, name), getattr(random, name)))


def number_nodes() -> None:
    """Number the nodes in the order of their partitions, instead of at random."""
    engine: Any = import_module("flwr.server.superlink.fleet.vce.vce_api")
    store: Any = import_module("flwr.server.superlink.linkstate.in_memory_linkstate")
    register, at_random = engine._register_nodes, store.generate_rand_int_from_bytes

    def numbered(*args: Any, **options: Any) -> Any:
        ids = iter(range(FIRST_NODE, FIRST_NODE + WHAT["nodes"]))
        store.generate_rand_int_from_bytes = lambda *_, **__: next(ids)
        try:
            return register(*args, **options)
        finally:
            store.generate_rand_int_from_bytes = at_random

    engine._register_nodes = numbered


if __name__ == "__main__":
    number_nodes()
    run_simulation(ConfiguredServer(), ConfiguredClient(), WHAT["nodes"], backend_config={
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 2}})

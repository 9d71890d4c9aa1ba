"""Small random worlds: a few devices in a cell with every feature on or off by chance, each a TOML text.

A feature is a function that writes lines, or none; a new one is a function more in its list. Dice are a
:class:`random.Random`: one with a seed, or one of Hypothesis.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

SHARING = ("planned", "equal", "adaptive", "tdma")
ALLOCATION = ("sao", "sao", "equal", "algorithm5", "tdma", "sao-joint", "fedl")
DEAR = ("sao-adaptive", "algorithm6", "sao-common-power", "rra")      # of few devices, now and then
SELECTION = ("fedavg", "round-robin", "proportional-fair")            # that go with all servers
SERVERS = ("synchronous", "first-k", "window", "fedbuff", "fedasync", "port")
WAITS = ("synchronous", "first-k")
WORK = ("pause", "lose", "drop")


@dataclass(frozen=True)
class World:
    """What the parts of a world have to know of each other."""

    devices: tuple[int, ...]         # of each population
    server: str
    cohort: int
    moves: bool
    recorded_gains: bool
    learns: bool = False

    @property
    def size(self) -> int:
        return sum(self.devices)


def draw_world(dice: Random, *, learns: bool = False, servers: tuple[str, ...] = SERVERS) -> str:
    """A scenario; with ``learns``, one that trains a tiny model for a few rounds."""
    devices = tuple(dice.randint(1, 4) for _ in range(dice.choice((1, 1, 2))))
    recorded = dice.random() < 0.2
    world = World(devices, dice.choice(servers), dice.randint(1, min(4, sum(devices))),
                  moves=not recorded and dice.random() < 0.4, recorded_gains=recorded, learns=learns)
    if world.server == "first-k":
        world = replace(world, cohort=max(1, min(world.size, world.cohort + 1)))
    return _without_idle_keys(world, "\n".join([
        _cell(dice, world), *(_population(dice, world, place) for place in range(len(devices))), _learning(dice, world),
        _selection(dice, world), _allocation(dice, world), _rounds(dice, world), _server(dice, world),
        _end(dice, world)]) + "\n")


def _without_idle_keys(world: World, text: str) -> str:
    """Without keys that would have no effect in this world, which are refused."""
    if "fading = " not in text:
        text = text.replace('\nchannel = "mean"', "")
    if world.server not in WAITS:
        text = re.sub(r'to = "(all|each)", ', "", text)
    return re.sub(r"\nwait = .*", "", text) if world.server == "window" else text


def maybe(dice: Random, chance: float, *lines: str) -> list[str]:
    return list(lines) if dice.random() < chance else []


def ms(dice: Random, low: float, high: float) -> str:
    """A time, as often short as long."""
    return f'"{low * (high / low) ** dice.random():.4g} ms"'


# The cell.

def _cell(dice: Random, world: World) -> str:
    lines = ["[cell]", f'radius = "{dice.randint(80, 400)} m"', f'bandwidth = "{dice.choice((2, 8, 20))} MHz"']
    for feature in CELL:
        lines += feature(dice, world)
    return "\n".join(lines)


def _gains(dice: Random, world: World) -> list[str]:
    """Recorded by round or in time; else fading, by the round or by a coherence time."""
    if world.recorded_gains:
        count = dice.randint(2, 4)
        rows = [[round(dice.uniform(-112, -85), 1) for _ in range(world.size)] for _ in range(count)]
        times = [0.0]
        for _ in range(count - 1):
            times.append(round(times[-1] + dice.uniform(0.01, 0.4), 3))
        return [f"gain_trace = {{ db = {rows}{f', t = {times}' if dice.random() < 0.7 else ''} }}"]
    coherence = "" if dice.random() < 0.3 else f", coherence = {ms(dice, 2, 300)}"
    k = f'model = "rician", k = "{dice.randint(0, 12)} dB"' if dice.random() < 0.5 else 'model = "rayleigh"'
    return maybe(dice, 0.6, f"fading = {{ {k}{coherence} }}")


def _shadowing(dice: Random, world: World) -> list[str]:
    sd = dice.randint(1, 8)
    if world.moves and dice.random() < 0.5:
        return [f'shadowing = {{ sd = "{sd} dB", correlation = "{dice.randint(5, 80)} m" }}']
    return [] if world.recorded_gains else maybe(dice, 0.5, f'shadowing = "{sd} dB"')


def _radio(dice: Random, world: World) -> list[str]:
    rate = [*maybe(dice, 0.6, f'cap = "{dice.uniform(1, 8):.2f} bit/s/Hz"'),
            *maybe(dice, 0.6, f"efficiency = {dice.uniform(0.4, 1):.2f}")]
    return [*(maybe(dice, 0.4, f"rate = {{ {', '.join(rate)} }}") if rate else []),
            *maybe(dice, 0.2, f'noise_figure = "{dice.randint(1, 9)} dB"')]


def _downlink(dice: Random, world: World) -> list[str]:
    reception = f', reception = "{dice.randint(5, 100)} mW"' if dice.random() < 0.5 else ""
    return maybe(dice, 0.25, f'downlink = {{ to = "{dice.choice(("all", "each"))}", '
                             f'power = "{dice.uniform(0.1, 2):.2f} W"{reception} }}')


CELL: list[Callable[[Random, World], list[str]]] = [_gains, _shadowing, _radio, _downlink]


# Devices.

def _population(dice: Random, world: World, place: int) -> str:
    power, samples = dice.randint(14, 23), dice.randint(20, 60) if world.learns else dice.randint(50, 400)
    lines = ["[[population]]", f'name = "kind-{place}"', f"count = {world.devices[place]}",
             f"cpu = {{ min = \"{dice.randint(50, 200)} MHz\", max = \"{dice.choice((0.8, 1.5, 3))} GHz\", "
             f"cycles_per_sample = {{ dist = \"uniform\", low = 2e4, high = {dice.choice((4e4, 1e5))} }} }}",
             f'radio = {{ power = "{power} dBm", min_power = "{power - 6} dBm", max_power = "23 dBm" }}',
             f"samples = {samples}"]
    for feature in DEVICES:
        lines += feature(dice, world, world.devices[place])
    return "\n".join(lines)


def _energy(dice: Random, world: World, count: int) -> list[str]:
    low, high = dice.choice(((2, 10), (10, 60), (60, 400), (60, 400)))
    budget = dice.choice((f'"{dice.randint(low, high)} mJ"',
                          f'{{ dist = "uniform", low = "{low} mJ", high = "{high} mJ" }}'))
    if dice.random() < 0.5:
        return [f"budget = {budget}"]
    hours = dice.choice((("00:00", "06:00"), ("06:00", "22:00")))
    return [f"budget = {budget}", f'battery = "{dice.uniform(1.0, 6.0) * high:.4g} mJ"',
            *maybe(dice, 0.3, f'idle = "{dice.uniform(1, 100):.3g} mW"'),
            *maybe(dice, 0.3, f'harvest = "{dice.uniform(1, 100):.3g} mW"'),
            *maybe(dice, 0.2, f'charging = {{ power = "{dice.uniform(1, 200):.3g} mW", start = "{hours[0]}", '
                              f'end = "{hours[1]}" }}')]


def _mobility(dice: Random, world: World, count: int) -> list[str]:
    if not world.moves:
        return []
    every = f", every = {ms(dice, 5, 500)}"
    if dice.random() < 0.3:
        tracks = [f"{{ t = [0, {dice.uniform(0.1, 3):.2f}], x = [{dice.randint(5, 200)}, {dice.randint(5, 200)}], "
                  f"y = [{dice.randint(5, 200)}, {dice.randint(5, 200)}] }}" for _ in range(count)]
        return [f'mobility = {{ model = "recorded", tracks = [{", ".join(tracks)}]{every} }}']
    low = dice.uniform(0.5, 20)
    speed = f'{{ dist = "uniform", low = "{low:.3g} m/s", high = "{low * 2:.3g} m/s" }}'
    return [f'mobility = {{ model = "random-waypoint", speed = {speed}, pause = {ms(dice, 1, 3000)}{every} }}']


def _availability(dice: Random, world: World, count: int) -> list[str]:
    work = f'work = "{dice.choice(WORK)}"'
    if dice.random() < 0.6:
        table = f'{{ model = "on-off", on = {ms(dice, 60, 3000)}, off = {ms(dice, 5, 800)}, {work} }}'
    else:
        period = dice.uniform(0.2, 2.0)
        entries = []
        for _ in range(count):
            edges = sorted(round(dice.uniform(0, period), 3) for _ in range(2 * dice.randint(1, 3)))
            edges = sorted(set(edges))
            edges = edges[:len(edges) // 2 * 2] or [0.0, round(period / 2, 3)]
            entries.append(f"{{ on = {edges[::2]}, off = {edges[1::2]} }}")
        again = f', period = "{period + 0.01:.3f} s"' if dice.random() < 0.8 else ""
        table = f'{{ model = "recorded", intervals = [{", ".join(entries)}]{again}, {work} }}'
    return maybe(dice, 0.4, f"availability = {table}")


def _heat(dice: Random, world: World, count: int) -> list[str]:
    return maybe(dice, 0.25, f"throttle = {{ after = {ms(dice, 5, 200)}, to = \"{dice.randint(250, 700)} MHz\", "
                             f"recovers = {ms(dice, 5, 500)} }}")


def _faults(dice: Random, world: World, count: int) -> list[str]:
    crash = f'{{ every = {ms(dice, 200, 5000)}, repair = {ms(dice, 5, 300)}, work = "{dice.choice(WORK)}" }}'
    packets = f", packets = {dice.randint(2, 40)}" if dice.random() < 0.3 else ""
    loss = f"{{ probability = {dice.uniform(0.05, 0.9):.2f}, tries = {dice.randint(1, 4)}{packets} }}"
    return [*maybe(dice, 0.35, f"crash = {crash}"), *maybe(dice, 0.4, f"loss = {loss}")]


DEVICES: list[Callable[[Random, World, int], list[str]]] = [_energy, _mobility, _availability, _heat, _faults]


# Work and rules.

def _learning(dice: Random, world: World) -> str:
    lines = ["[learning]", f'bits = "{dice.randint(20, 250)} kbit"', f"local_iterations = {dice.randint(1, 2)}"]
    if world.learns:
        lines += ['dataset = "digits"', 'model = "mnist-cnn"', 'partition = { kind = "iid" }', "batch_size = 10",
                  "learning_rate = 0.05"]
    return "\n".join(lines)


def _selection(dice: Random, world: World) -> str:
    return f'[selection]\nmethod = "{dice.choice(SELECTION)}"\ncohort = {world.cohort}'


def _allocation(dice: Random, world: World) -> str:
    dear = world.cohort <= 2 and dice.random() < 0.1
    method = dice.choice(DEAR if dear else ALLOCATION)
    options = {"fedl": "lambda = 0.5", "rra": f"deadline = {ms(dice, 200, 900)}"}
    return "\n".join([
        "[allocation]", f'method = "{method}"', *([options[method]] if method in options else []),
        *maybe(dice, 0.7, f'sharing = "{dice.choice(SHARING)}"'), *maybe(dice, 0.3, 'channel = "mean"')])


def _rounds(dice: Random, world: World) -> str:
    lines = ["[rounds]", f'infeasible = "{dice.choice(("largest", "largest", "waves", "relax"))}"',
             *maybe(dice, 0.4, f'over_budget = "{dice.choice(("go on", "drop"))}"'),
             *maybe(dice, 0.4, f"wait = {ms(dice, 5, 500)}")]
    if world.server in WAITS:
        first, infeasible = dice.choice(("all", "cohort")), dice.choice(("waves", "relax"))
        lines += [f'first = "{first}"', *([f'first_infeasible = "{infeasible}"'] if first == "all" else []),
                  *maybe(dice, 0.4, f"deadline = {ms(dice, 30, 1500)}")]
    return "\n".join(lines)


def _server(dice: Random, world: World) -> str:
    if world.server == "synchronous":
        return ""
    buffer = f"buffer = {dice.randint(1, world.cohort)}"
    options = {"first-k": [buffer], "window": [f"period = {ms(dice, 20, 600)}", *maybe(dice, 0.3, "stalest = 2")],
               "fedbuff": [buffer], "port": [buffer], "fedasync": []}
    return "\n".join(["[server]", f'kind = "{world.server}"', *options[world.server]])


def _end(dice: Random, world: World) -> str:
    rounds = dice.randint(2, 3) if world.learns else dice.randint(1, 5)
    return "\n".join(["[end]", f"rounds = {rounds}", *maybe(dice, 0.3, f"time = {ms(dice, 100, 3000)}")])

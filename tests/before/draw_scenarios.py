"""Small random scenarios, each a TOML text that depends on its number alone."""

from __future__ import annotations

import re
from random import Random

ALLOCATION = ("sao", "equal", "algorithm5", "algorithm6", "sao-common-power", "sao-joint", "fedl", "rra")
SELECTION = ("fedavg", "round-robin", "proportional-fair", "fedcs", "rra", "rra-as-run")
LEVELS = {"tight": (1, 4), "middling": (8, 30), "loose": (60, 400)}      # budgets in mJ


def draw_scenario(number: int) -> str:
    """The scenario of this number; methods and rules take turns, so that a few dozen numbers meet them all."""
    dice = Random(f"before {number}")
    counts = [dice.randint(3, 9) for _ in range(dice.choice((1, 1, 2, 3)))]
    cohort = dice.randint(1, min(8, sum(counts)))
    parts = [_cell(dice, number, sum(counts)), *(_population(dice, i, count) for i, count in enumerate(counts)),
             _learning(dice), _selection(dice, number, cohort), _allocation(dice, number), _rounds(dice, number),
             _end(dice)]
    return _without_idle_keys("\n".join(parts))


def _without_idle_keys(text: str) -> str:
    """Without what recorded gains, or measured ones of all devices, override: such keys are refused by now."""
    if "gain_trace" in text:
        text = re.sub(r"devices = \{ gain = \[(.*)\] \}", lambda gains: f"count = {gains[1].count('dB')}", text)
    if "gain_trace" in text or text.count("devices = {") == text.count("[[population]]"):
        text = re.sub(r"shadowing = .*\n", "", text)
    return text


def _cell(dice: Random, number: int, devices: int) -> str:
    lines = ["[cell]", f'radius = "{dice.randint(80, 400)} m"', f'bandwidth = "{dice.choice((0.5, 1, 3, 8, 20))} MHz"',
             f'shadowing = "{dice.choice((0, 4, 8))} dB"']
    if number % 3 == 0:
        lines.append('fading = "rayleigh"')
    elif number % 7 == 1:
        rows = [[round(dice.uniform(-115, -85), 2) for _ in range(devices)] for _ in range(3)]
        lines.append(f"gain_trace = {{ db = {rows} }}")
    return "\n".join(lines)


def _population(dice: Random, place: int, count: int) -> str:
    low, high = LEVELS[dice.choice(tuple(LEVELS))]
    budget = dice.choice((
        f'{{ dist = "uniform", low = "{low} mJ", high = "{high} mJ" }}', f'"{dice.randint(low, high)} mJ"',
        f'{{ dist = "choice", values = ["{low} mJ", "{high} mJ"] }}',
        f'{{ dist = "lognormal", median = "{(low + high) // 2} mJ", sigma = 0.3 }}'))
    battery = dice.choice((
        '"mains"', '"10 kJ"', f'{{ dist = "uniform", low = "{low} mJ", high = "{2 * high} mJ" }}',
        f'"{dice.randint(low, 2 * high)} mJ"'))
    power = dice.randint(14, 23)
    lines = ["[[population]]", f'name = "kind-{place}"', f"budget = {budget}", f"battery = {battery}",
             f"cpu = {{ min = \"{dice.randint(50, 300)} MHz\", max = \"{dice.choice((0.8, 1.5, 2, 3))} GHz\", "
             f"cycles_per_sample = {{ dist = \"uniform\", low = 1e4, high = {dice.choice((1.5e4, 3e4))} }} }}",
             f'radio = {{ power = "{power} dBm", min_power = "{power - 6} dBm", max_power = "23 dBm" }}',
             f"samples = {dice.choice((dice.randint(50, 600), 500))}"]
    if dice.random() < 0.2:
        places = [[f"{dice.randint(-200, 200)} m", f"{dice.randint(10, 200)} m"] for _ in range(count)]
        lines.append(f"places = {places}".replace("'", '"'))
    elif dice.random() < 0.2:
        gains = [f"{dice.uniform(-112, -85):.2f} dB" for _ in range(count)]
        lines.append(f"devices = {{ gain = {gains} }}".replace("'", '"'))
    else:
        lines.append(f"count = {count}")
    return "\n".join(lines)


def _learning(dice: Random) -> str:
    work = dice.choice((f"local_iterations = {dice.randint(1, 10)}",
                        f"local_steps = {dice.randint(20, 300)}\nbatch_size = {dice.choice((5, 10, 20))}"))
    return f'[learning]\nbits = "{dice.randint(50, 600)} kbit"\n{work}'


def _selection(dice: Random, number: int, cohort: int) -> str:
    method = SELECTION[(number + number // 8) % len(SELECTION)]
    lines = ["[selection]", f'method = "{method}"', f"cohort = {cohort}"]
    if method in ("fedcs", "rra") and dice.random() < 0.5:
        lines.append(f'deadline = "{dice.randint(100, 900)} ms"')
    return "\n".join(lines)


def _allocation(dice: Random, number: int) -> str:
    method = ALLOCATION[number % len(ALLOCATION)]
    lines = ["[allocation]", f'method = "{method}"']
    if method == "fedl":
        lines.append("lambda = " + dice.choice(("0.05", "0.5", '"tuned"')))
    if method == "rra":
        lines.append(f'deadline = "{dice.randint(300, 900)} ms"')
    return "\n".join(lines)


def _rounds(dice: Random, number: int) -> str:
    first = "all" if (number + number // 8) % 2 else "cohort"
    lines = ["[rounds]", f'first = "{first}"', f'infeasible = "{("largest", "waves", "relax")[number // 2 % 3]}"']
    if first == "all":
        lines.append(f'first_infeasible = "{dice.choice(("waves", "relax"))}"')
    if dice.random() < 0.35:
        deadline = f'deadline = "{dice.randint(60, 500)} ms"'
        if ALLOCATION[number % len(ALLOCATION)] != "rra":        # which always takes as long as its own deadline
            lines.append(deadline)
    return "\n".join(lines)


def _end(dice: Random) -> str:
    time = f'\ntime = "{dice.randint(200, 1500)} ms"' if dice.random() < 0.3 else ""
    return f"[end]\nrounds = {dice.randint(3, 7)}{time}"

"""A grammar of small scenarios: every table is drawn from a rule of its own, as a nested dict of TOML values.

``living`` worlds have nearly all features on at once: fading, mobility, availability, crashes, packet loss, batteries,
harvesting, charging, thermal throttling, downloads, deadlines, every scheduler and server. ``exact`` worlds draw no
property of a device at random, so that their devices can be listed in another order of tables, in other units or in
more populations. The dice are a :class:`random.Random`.
"""

from __future__ import annotations

import math
from random import Random
from typing import Any

Table = dict[str, Any]

SCHEDULERS = ("planned", "equal", "adaptive", "tdma")
SERVERS = ("synchronous", "synchronous", "first-k", "window", "fedbuff", "fedasync", "port")
WAIT = ("synchronous", "first-k")
INTERRUPTS = ("pause", "lose", "drop")


def between(dice: Random, low: float, high: float) -> float:
    """Log-uniform, four digits."""
    return float(f"{low * (high / low) ** dice.random():.4g}")


def ms(dice: Random, low: float, high: float) -> str:
    return f"{between(dice, low, high)} ms"


def living(dice: Random, often: float = 0.8) -> Table:
    """A scenario in which each feature is on with probability ``often``."""
    sizes = [dice.randint(1, 4) for _ in range(dice.choice((1, 2)))]
    kind, size = dice.choice(SERVERS), sum(sizes)
    cohort = dice.randint(min(2, size), min(5, size))
    on = lambda: dice.random() < often                                     # noqa: E731
    recorded = dice.random() < 0.2
    moves = not recorded and on()
    scenario: Table = {
        "cell": living_cell(dice, on, size, kind, recorded=recorded, moves=moves),
        "population": [living_population(dice, on, place, count, moves=moves) for place, count in enumerate(sizes)],
        "learning": {"bits": f"{dice.randint(20, 250)} kbit", "local_iterations": dice.randint(1, 2)},
        "selection": {"method": dice.choice(("fedavg", "round-robin", "proportional-fair")), "cohort": cohort},
        "allocation": allocation(dice, cohort),
        "rounds": living_rounds(dice, on, kind),
        "end": {"rounds": dice.randint(2, 6)},
    }
    if "fading" in scenario["cell"] and dice.random() < 0.3:
        scenario["allocation"]["channel"] = "mean"
    if kind != "synchronous":
        scenario["server"] = {"kind": kind, **server_options(dice, kind, cohort)}
    if dice.random() < 0.2:
        scenario["end"]["time"] = ms(dice, 300, 5000)
    return scenario


def living_cell(dice: Random, on: Any, size: int, kind: str, *, recorded: bool, moves: bool) -> Table:
    cell: Table = {"radius": f"{dice.randint(80, 400)} m", "bandwidth": f"{dice.choice((2, 5, 8, 20))} MHz"}
    if recorded:
        cell["gain_trace"] = gain_trace(dice, size, in_time=on())
    elif on():
        cell["fading"] = {"model": "rayleigh"} if dice.random() < 0.5 else {"model": "rician", "k": "6 dB"}
        if on():
            cell["fading"]["coherence"] = ms(dice, 3, 300)
    if moves and on():
        cell["shadowing"] = {"sd": f"{dice.randint(1, 8)} dB", "correlation": f"{dice.randint(5, 80)} m"}
    if on():
        cell["rate"] = {"efficiency": between(dice, 0.4, 1.0)}
        if dice.random() < 0.4:
            cell["rate"]["cap"] = f"{between(dice, 1.0, 8.0)} bit/s/Hz"
    if on():
        cell["downlink"] = {"power": f"{between(dice, 0.1, 2.0)} W", "reception": f"{dice.randint(5, 100)} mW"}
        if kind in WAIT:
            cell["downlink"]["to"] = dice.choice(("all", "each"))
    return cell


def gain_trace(dice: Random, size: int, *, in_time: bool) -> Table:
    count = dice.randint(2, 4)
    rows = [[round(dice.uniform(-112, -85), 1) for _ in range(size)] for _ in range(count)]
    times = [0.0]
    while len(times) < count:
        times.append(round(times[-1] + dice.uniform(0.01, 0.4), 3))
    return {"db": rows, **({"t": times} if in_time else {})}


def living_population(dice: Random, on: Any, place: int, count: int, *, moves: bool) -> Table:
    power, low = dice.randint(14, 23), dice.choice((5, 20, 60))
    table: Table = {
        "name": f"kind-{place}", "count": count,
        "cpu": {"min": f"{dice.randint(50, 200)} MHz", "max": f"{dice.choice((0.8, 1.5, 3))} GHz",
                "cycles_per_sample": {"dist": "uniform", "low": 2e4, "high": dice.choice((4e4, 1e5))}},
        "radio": {"power": f"{power} dBm", "min_power": f"{power - 6} dBm", "max_power": "23 dBm"},
        "samples": dice.randint(50, 400),
        "budget": {"dist": "uniform", "low": f"{low} mJ", "high": f"{4 * low} mJ"},
    }
    if on():
        table["battery"] = f"{between(dice, 3.0, 40.0) * low:.4g} mJ"
        table.update({key: f"{between(dice, 1, 100)} mW" for key in ("idle", "harvest") if on()})
        if dice.random() < 0.3:
            start, end = dice.choice((("00:00", "06:00"), ("06:00", "22:00")))
            table["charging"] = {"power": f"{between(dice, 1, 200)} mW", "start": start, "end": end}
    if moves:
        speed = between(dice, 0.5, 20)
        table["mobility"] = {
            "model": "random-waypoint", "pause": ms(dice, 1, 3000), "every": ms(dice, 5, 500),
            "speed": {"dist": "uniform", "low": f"{speed} m/s", "high": f"{2 * speed} m/s"}}
    if on():
        table["availability"] = availability(dice, count)
    if on():
        table["crash"] = {"every": ms(dice, 200, 5000), "repair": ms(dice, 5, 300), "work": dice.choice(INTERRUPTS)}
    if on():
        table["loss"] = {"probability": round(dice.uniform(0.05, 0.7), 2), "tries": dice.randint(1, 4)}
        if dice.random() < 0.4:
            table["loss"]["packets"] = dice.randint(2, 40)
    if on():
        table["throttle"] = {"after": ms(dice, 5, 200), "to": f"{dice.randint(250, 700)} MHz",
                             "recovers": ms(dice, 5, 500)}
    return table


def availability(dice: Random, count: int, *, recorded: bool = False) -> Table:
    if not recorded and dice.random() < 0.6:
        return {"model": "on-off", "on": ms(dice, 60, 3000), "off": ms(dice, 5, 500), "work": dice.choice(INTERRUPTS)}
    intervals = []
    for _ in range(count):
        edges = sorted({round(dice.uniform(0, 1), 3) for _ in range(2 * dice.randint(1, 3))})
        edges = edges[:len(edges) // 2 * 2] or [0.0, 0.5]
        intervals.append({"on": edges[::2], "off": edges[1::2]})
    again = {"period": f"{between(dice, 1.01, 2.0)} s"} if dice.random() < 0.8 else {}
    return {"model": "recorded", "intervals": intervals, **again, "work": dice.choice(INTERRUPTS)}


def allocation(dice: Random, cohort: int) -> Table:
    method = dice.choice(("sao", "sao", "equal", "tdma", "algorithm5", "sao-joint", "fedl"))
    if cohort <= 2 and dice.random() < 0.1:
        method = "sao-adaptive"
    return {"method": method, **({"lambda": 0.5} if method == "fedl" else {}), "sharing": dice.choice(SCHEDULERS)}


def living_rounds(dice: Random, on: Any, kind: str) -> Table:
    rounds: Table = {"infeasible": dice.choice(("largest", "waves", "relax")),
                     "over_budget": dice.choice(("go on", "drop"))}
    if kind != "window":
        rounds["wait"] = ms(dice, 5, 500)
    if kind in WAIT:
        rounds["first"] = dice.choice(("all", "cohort"))
        if rounds["first"] == "all":
            rounds["first_infeasible"] = dice.choice(("waves", "relax"))
        if dice.random() < 0.5:
            rounds["deadline"] = ms(dice, 100, 2000)
    return rounds


def server_options(dice: Random, kind: str, cohort: int) -> Table:
    if kind == "window":
        return {"period": ms(dice, 20, 600)}
    return {} if kind == "fedasync" else {"buffer": dice.randint(1, cohort)}


# Worlds without random properties.

def exact(dice: Random, *, static: bool) -> Table:
    """A scenario whose devices are alike within a population and whose gains are recorded.

    Budgets are a drawn multiple of what an equal share of the band takes at the slowest clock, so that most cohorts
    have a plan. With ``static`` nothing changes in time and the server waits; else what changes is recorded.
    """
    sizes = [dice.randint(1, 3) for _ in range(dice.choice((1, 2, 3)))]
    size = sum(sizes)
    hz, bits = between(dice, 1e4, 1e8), between(dice, 1e2, 1e7)
    gains = [[round(dice.uniform(-130, -70), 2) for _ in range(size)]
             for _ in range(1 if static else dice.randint(1, 3))]
    times = [round(0.13 * place, 3) for place in range(len(gains))]
    cohort = size if static and dice.random() < 0.5 else dice.randint(1, size)
    first = [0, *sizes]
    scenario: Table = {
        "cell": {"radius": "500 m", "bandwidth": f"{hz / 1e3:.7g} kHz",
                 "gain_trace": {"db": gains, **({} if len(gains) == 1 else {"t": times})}},
        "population": [exact_population(dice, place, count, hz / size, bits, gains[0][sum(first[:place + 1]):])
                       for place, count in enumerate(sizes)],
        "learning": {"bits": f"{bits / 1e3:.7g} kbit", "local_iterations": dice.randint(1, 3)},
        "selection": {"method": dice.choice(("fedavg", "round-robin")), "cohort": cohort},
        "allocation": {"method": dice.choice(("sao", "equal", "tdma", "algorithm5"))},
        "rounds": {"first": dice.choice(("all", "cohort"))},
        "end": {"rounds": dice.randint(1, 3)},
    }
    return scenario if static else changing(dice, scenario, sizes, cohort)


def exact_population(dice: Random, place: int, count: int, hz: float, bits: float, db: list[float]) -> Table:
    """Devices with a budget that suffices for the worst of their gains on a share of ``hz``."""
    power_dbm, low_hz, samples = dice.randint(0, 30), between(dice, 1e7, 5e8), dice.randint(1, 500)
    cycles, capacitance = between(dice, 1e3, 1e6), between(dice, 1e-29, 1e-27)
    watts = 10 ** (power_dbm / 10) / 1e3
    snr_hz = 10 ** (min(db[:count]) / 10) * watts / 10 ** (-174 / 10 - 3)
    least_j = capacitance * cycles * samples * 3 * low_hz ** 2 + watts * bits / (hz * math.log2(1 + snr_hz / hz))
    budget_j = least_j * between(dice, 1.02, 30.0)
    return {"name": f"kind-{place}", "count": count,
            "cpu": {"min": f"{low_hz / 1e6:.7g} MHz", "max": f"{low_hz * between(dice, 1.01, 30) / 1e9:.7g} GHz",
                    "cycles_per_sample": cycles, "capacitance": capacitance},
            "radio": {"power": f"{power_dbm} dBm"}, "samples": samples, "budget": f"{budget_j * 1e3:.7g} mJ"}


def changing(dice: Random, scenario: Table, sizes: list[int], cohort: int) -> Table:
    """The same with recorded absences, batteries, heat, downloads, and any server."""
    kind = dice.choice(SERVERS)
    scenario["allocation"]["sharing"] = dice.choice(SCHEDULERS)
    scenario["rounds"] = {**living_rounds(dice, None, kind)}
    if dice.random() < 0.4:
        scenario["cell"]["downlink"] = {"power": "500 mW", "reception": "12 mW"}
    for table, count in zip(scenario["population"], sizes, strict=True):
        if dice.random() < 0.5:
            table["battery"] = f"{float(table['budget'].split()[0]) * dice.uniform(1.5, 9):.7g} mJ"
            table.update({key: f"{dice.randint(1, 90)} mW" for key in ("idle", "harvest") if dice.random() < 0.5})
        if dice.random() < 0.5:
            table["availability"] = availability(dice, count, recorded=True)
        if dice.random() < 0.4:
            to_ghz = dice.uniform(0.1, 0.99) * float(table["cpu"]["max"].split()[0])
            table["throttle"] = {"after": ms(dice, 5, 200), "to": f"{to_ghz:.7g} GHz", "recovers": ms(dice, 5, 500)}
    if kind != "synchronous":
        scenario["server"] = {"kind": kind, **server_options(dice, kind, cohort)}
    return scenario

"""Texts changed at the level of bytes, tokens, keys, values, lines and tables."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path

EXTREMES = ["0", "-1", "1", "2", "1e308", "-1e308", "5e-324", "1e-30", "nan", "inf", "-inf", "9" * 400, "0x10", "1_0",
            "true", '""', '"x"', "[]", "{}", "[[]]", '"0 Hz"', '"1e300 s"', '"-5 MHz"', '"1e-300 J"', '"5 parsec"',
            '"1e400 bit"', '"NaN W"', '"\\u0661 m"', "1979-05-27", '{ dist = "uniform", low = 1, high = 0 }',
            '{ dist = "normal", mean = "1e300 J", sd = "1e300 J" }', '"\\u0000"', '"a:b"', '"os:system"', '"../../x"',
            "4294967296", "1000000", "0.1", "1e18", '"1 W"', '"1 kHz"', '"20 MHz"', '"3 s"', '"sao"', '"equal"']
FIGURE = re.compile(r"\d+(\.\d+)?(e-?\d+)?")
TOKEN = re.compile(r'"[^"\n]*"|[\w.+-]+')
ASSIGNED = re.compile(r"^(\s*[\w.-]+\s*=\s*)(.+)$", re.M)
SETTINGS = [
    ("selection", "method", [f'"{name}"' for name in (
        "fedavg", "round-robin", "fedcs", "rra", "proportional-fair", "tifl", "oort", "divergence", "icas",
        "power-of-choice", "k-center", "kmeans")]),
    ("allocation", "method", [f'"{name}"' for name in (
        "sao", "equal", "fedl", "rra", "algorithm5", "algorithm6", "sao-common-power", "sao-joint", "tdma",
        "sao-adaptive")]),
    ("allocation", "sharing", ['"planned"', '"equal"', '"adaptive"', '"tdma"']),
    ("server", "kind", ['"synchronous"', '"first-k"\nbuffer = 2', '"window"\nevery = "500 ms"',
                        '"fedbuff"\nbuffer = 3', '"fedasync"', '"port"\nbuffer = 2']),
    ("cell", "fading", ['"rayleigh"', '{ model = "rayleigh", coherence = "20 ms" }',
                        '{ model = "rician", k = "6 dB", coherence = "100 ms" }']),
    ("cell", "rate", ['{ cap = "7.4 bit/s/Hz" }', "{ efficiency = 0.5 }"]),
    ("cell", "downlink", ['{ power = "1 W" }', '{ to = "each", power = "1 W", reception = "50 mW" }']),
    ("population", "mobility", ['{ model = "random-waypoint", speed = "2 m/s", pause = "3 s" }']),
    ("population", "availability", [f'{{ model = "on-off", on = "2 s", off = "1 s", work = "{work}" }}'
                                    for work in ("pause", "lose", "drop")]),
    ("population", "crash", ['{ every = "5 s", repair = "1 s" }', '{ every = "1 s", repair = "1 s", work = "drop" }']),
    ("population", "loss", ["{ probability = 0.3, tries = 2 }", "{ probability = 0.2, tries = 3, packets = 20 }"]),
    ("population", "battery", ['"0.2 J"', '{ dist = "uniform", low = "10 mJ", high = "2 J" }']),
    ("population", "idle", ['"3 mW"']),
    ("population", "harvest", ['"20 mW"', '{ dist = "uniform", low = "5 mW", high = "30 mW" }']),
    ("population", "charging", ['{ power = "5 W", start = "22:00", end = "06:00" }']),
    ("population", "throttle", ['{ after = "100 ms", to = "0.5 GHz", recovers = "5 s" }']),
    ("rounds", "deadline", ['"300 ms"', '"2 s"']),
    ("rounds", "infeasible", ['"waves"', '"relax"', '"error"']),
    ("rounds", "over_budget", ['"drop"']),
]


def mutant(text: str, chance: random.Random) -> str:
    """A text after one to four changes; every other one stays well formed, and gets past the first check more often."""
    formed, malformed = [scaled, scaled, setting, setting], [token, value, number, key, lines, structure, raw]
    ways = formed if chance.random() < 0.5 else malformed
    for _ in range(chance.choice([1, 1, 1, 2, 2, 3, 4])):
        text = chance.choice(ways)(text, chance)
    return text


def scaled(text: str, chance: random.Random) -> str:
    """A number of a value, not of a comment, becomes larger or smaller, and keeps its unit."""
    found = [match for row in ASSIGNED.finditer(text)
             for match in FIGURE.finditer(text, row.start(2), row.start(2) + _said(row[2]))]
    if not found:
        return text
    place = chance.choice(found)
    if chance.random() < 0.3:
        new = chance.choice(["0", "1", "2", "3", "7", "1e-9", "1e9", "1e30", "1e-30"])
    else:
        new = f"{float(place[0]) * 10 ** chance.uniform(-4, 4):.6g}"
        new = str(max(1, round(float(new)))) if place[0].isdigit() and chance.random() < 0.7 else new
    return text[: place.start()] + new + text[place.end():]


def _said(value: str) -> int:
    """How long a value is without the comment after it."""
    return len(re.match(r'(?:"[^"]*"|[^#"])*', value)[0])      # type: ignore[index]


def setting(text: str, chance: random.Random) -> str:
    """A key that exists gets one of its values: other methods, other servers, what changes in time."""
    table, key, values = chance.choice(SETTINGS)
    line = f"{key} = {chance.choice(values)}"
    found = re.search(rf"^\[+{table}\]+.*\n", text, re.M)
    if found is None:
        head = '[[population]]\nname = "phone"' if table == "population" else f"[{table}]"
        return f"{text}\n{head}\n{line}\n"
    body = re.compile(r"[^\[]*(?:\n|$)|").match(text, found.end())
    said = re.compile(rf"^{key}\s*=.*$", re.M).search(text, found.end(), body.end())      # type: ignore[union-attr]
    if said is None:
        return f"{text[: found.end()]}{line}\n{text[found.end():]}"
    return text[: said.start()] + line + text[said.end():]


def token(text: str, chance: random.Random) -> str:
    """A word becomes another word of the file, or an extreme value."""
    found = list(TOKEN.finditer(text))
    if not found:
        return text + chance.choice(EXTREMES)
    place, other = chance.choice(found), chance.choice(found)[0]
    return text[: place.start()] + chance.choice([other, chance.choice(EXTREMES)]) + text[place.end():]


def value(text: str, chance: random.Random) -> str:
    """A key gets an extreme value, or the value of another key."""
    found = list(ASSIGNED.finditer(text))
    if not found:
        return token(text, chance)
    place, other = chance.choice(found), chance.choice(found)
    return text[: place.start(2)] + chance.choice([chance.choice(EXTREMES), other[2]]) + text[place.end(2):]


def number(text: str, chance: random.Random) -> str:
    """A number grows or shrinks by many orders, or changes its sign."""
    found = list(re.finditer(r"\d+(\.\d+)?", text))
    if not found:
        return token(text, chance)
    place = chance.choice(found)
    new = float(place[0]) * 10.0 ** chance.randint(-12, 12) * chance.choice([1, 1, 1, -1])
    whole = round(new) if math.isfinite(new) else new
    return text[: place.start()] + chance.choice([f"{new:g}", f"{whole}"]) + text[place.end():]


def key(text: str, chance: random.Random) -> str:
    """A key is misspelt, doubled, or moves to another table."""
    found = list(ASSIGNED.finditer(text))
    if not found:
        return text
    place = chance.choice(found)
    way = chance.randrange(3)
    if way == 0:
        return text[: place.start()] + chance.choice("xyzé.-\"") + text[place.start():]
    if way == 1:
        return text[: place.end()] + "\n" + place[0] + text[place.end():]
    at = chance.choice([match.end() for match in re.finditer(r"^\[.*\].*$", text, re.M)] or [0])
    return text[:at] + "\n" + place[0] + text[at:]


def lines(text: str, chance: random.Random) -> str:
    """A line is lost, doubled, or changes places."""
    rows = text.split("\n")
    i, j = chance.randrange(len(rows)), chance.randrange(len(rows))
    way = chance.randrange(3)
    if way == 0:
        del rows[i]
    elif way == 1:
        rows.insert(j, rows[i])
    else:
        rows[i], rows[j] = rows[j], rows[i]
    return "\n".join(rows)


def structure(text: str, chance: random.Random) -> str:
    """Tables and lists where none belong, another base, a second population."""
    found = list(ASSIGNED.finditer(text))
    place = chance.choice(found) if found else None
    more = chance.choice(['base = "quickstart"\n', 'base = "self.toml"\n', "[[population]]\n", "[learning]\n",
                          "[x.y.z]\n", "[cell]\n", 'name = "../x"\n', f"deep = {'[' * 60}{']' * 60}\n",
                          '[rounds]\ndeadline = "1 ms"\n'])
    if place is None or chance.random() < 0.5:
        return chance.choice([more + text, text + "\n" + more])
    wrapped = chance.choice(["[{}]", "{{ a = {} }}", "[{0}, {0}]"]).format(place[2].partition("#")[0].strip())
    return text[: place.start(2)] + wrapped + text[place.end(2):]


def raw(text: str, chance: random.Random) -> str:
    """A few bytes are something else."""
    content = bytearray(text.encode("utf-8", "surrogateescape"))
    for _ in range(chance.randint(1, 5)):
        if content:
            content[chance.randrange(len(content))] = chance.choice([0, 9, 10, 34, 255, chance.randrange(256)])
    return content.decode("utf-8", "surrogateescape")


def written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return path


def mutant_table(text: str, chance: random.Random) -> str:
    """Cells and rows of a table change, are lost, or come twice."""
    for _ in range(chance.choice([1, 1, 2, 3])):
        text = chance.choice([token, number, lines, raw, commas])(text, chance)
    return text


def commas(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice([",", '"', "\n", ";", "\t", "=1+1", "\ufeff", "," * 5000]) + text[at:]

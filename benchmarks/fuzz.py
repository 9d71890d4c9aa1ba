"""Mutated scenarios, damaged run folders and odd tables, through the real command line: python benchmarks/fuzz.py.

    python benchmarks/fuzz.py --scenarios 10000 --folders 2000 --tables 1000 --jobs 2
    python benchmarks/fuzz.py --only folders:17 --keep DIR      # one case again, with what it read and said

Every case follows from the campaign's seed and its own number alone, so that a campaign goes on where it was left
(--first) and each finding can be played again. A case ends in one of five ways; all but the first two are faults:

    ok            exit code 0, and an answer that holds together (of a damaged run: that of the undamaged one)
    refused       exit code 2 and one sentence
    traceback     an exception reached the user, or the exit code was another
    wrong         exit code 0 with an answer that cannot be
    hang          not done after 20 s of computing, or after two minutes on a machine that is busy with other things
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import random
import re
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

os.environ.setdefault("POLARS_MAX_THREADS", "1")      # cases are forked: threads would stay behind
os.environ.setdefault("OMP_NUM_THREADS", "1")
LIMIT_S = 20.0      # of computing
WAIT_S = 120.0      # on the clock
MOST_BYTES = 8 << 30
KINDS = ("scenarios", "folders", "tables")
FAULTS = ("traceback", "wrong", "hang")
BUILT_IN = Path(__file__).parent.parent / "scenarios"
LARGEST = 300      # devices of a mutant that is also simulated: more is slow by right


@dataclass(frozen=True)
class Answer:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def refused(self) -> bool:
        """Whether it said one sentence, as far as one can tell: no traceback, and nothing without end."""
        told = [line for line in self.err.splitlines() if line.startswith("error: ")]
        usage = "Usage: " in self.err      # of the command line's own parser
        return self.code == 2 and (len(told) == 1 or usage) and "Traceback" not in self.err and len(self.err) < 20_000


class FaultError(Exception):
    """A case went wrong; how, and with which words."""

    def __init__(self, how: str, words: str) -> None:
        super().__init__(words)
        self.how = how


def netsim(*words: object) -> Answer:
    """The command line in this very process."""
    from netsim.cli import main

    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["netsim", *map(str, words)]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except Exception:
            traceback.print_exc(file=err)
            code = 1
    return Answer(code, out.getvalue(), err.getvalue())


def tell(answer: Answer, *words: object) -> bool:
    """Whether a command answered; False where it refused in one sentence, and else a fault."""
    if answer.code == 0:
        return True
    if answer.refused:
        return False
    raise FaultError("traceback", f"netsim {' '.join(map(str, words))}: exit code {answer.code}\n{answer.err[-3000:]}")


def ask(*words: object) -> Answer | None:
    """The answer of a command; None where it refused."""
    answer = netsim(*words)
    return answer if tell(answer, *words) else None


def holds(claim: bool, words: str) -> None:
    """A claim that every right answer meets."""
    if not claim:
        raise FaultError("wrong", words)


# Scenarios: the built-in files, changed at the level of bytes, tokens, keys, values and tables.

EXTREMES = ["0", "-1", "1", "2", "1e308", "-1e308", "5e-324", "1e-30", "nan", "inf", "-inf", "9" * 400, "0x10", "1_0",
            "true", '""', '"x"', "[]", "{}", "[[]]", '"0 Hz"', '"1e300 s"', '"-5 MHz"', '"1e-300 J"', '"5 parsec"',
            '"1e400 bit"', '"NaN W"', '"\\u0661 m"', "1979-05-27", '{ dist = "uniform", low = 1, high = 0 }',
            '{ dist = "normal", mean = "1e300 J", sd = "1e300 J" }', '"\\u0000"', '"a:b"', '"os:system"', '"../../x"',
            "4294967296", "1000000", "0.1", "1e18", '"1 W"', '"1 kHz"', '"20 MHz"', '"3 s"', '"sao"', '"equal"']
FIGURE = re.compile(r"\d+(\.\d+)?(e-?\d+)?")
TOKEN = re.compile(r'"[^"\n]*"|[\w.+-]+')
ASSIGNED = re.compile(r"^(\s*[\w.-]+\s*=\s*)(.+)$", re.M)


def mutant(text: str, chance: random.Random) -> str:
    """A text after one to four changes; every other one stays well formed, and gets past the first check more often."""
    ways = [scaled, scaled, method] if chance.random() < 0.5 else [token, value, number, key, lines, structure, raw]
    for _ in range(chance.choice([1, 1, 1, 2, 2, 3, 4])):
        text = chance.choice(ways)(text, chance)
    return text


METHODS = {"selection": ["fedavg", "round-robin", "fedcs", "rra", "proportional-fair", "tifl", "oort", "divergence"],
           "allocation": ["sao", "equal", "fedl", "rra", "algorithm5", "algorithm6", "sao-common-power", "sao-joint"]}


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


def method(text: str, chance: random.Random) -> str:
    """Another method of selection or allocation."""
    table = chance.choice(list(METHODS))
    named = re.search(rf'^\[{table}\][^\[]*?^method = "([^"]*)"', text, re.M)
    if named is None:
        return f'{text}\n[{table}]\nmethod = "{chance.choice(METHODS[table])}"\n'
    return text[: named.start(1)] + chance.choice(METHODS[table]) + text[named.end(1):]


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
    return text[: place.start()] + chance.choice([f"{new:g}", f"{round(new)}"]) + text[place.end():]


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


def scenario_case(chance: random.Random, folder: Path) -> str:
    """A mutant is checked, planned and played; what passes the check must come to an answer that holds together."""
    for table in BUILT_IN.glob("*.csv"):
        shutil.copy(table, folder)
    files = sorted(BUILT_IN.glob("*.toml"))
    text = mutant(chance.choice(files).read_text(encoding="utf-8"), chance)
    file = written(folder / "self.toml", text)
    if ask("check", file) is None:
        return "refused"
    done = "refused"
    seed = chance.randrange(100)
    if small(file):
        plans = ask("allocate", file, "--json", "--seed", seed)
        if plans is not None:
            for plan in json.loads(plans.out):
                check_plan(plan)
            done = "ok"
        words = ["run", file, "--no-learning", "--json", "--seed", seed, "--out", folder / "run", "--set",
                 "end.rounds=2"]
        played = ask(*words) or ask(*words, "--set", "selection.method=fedavg")      # its own may need models
        if played is not None:
            check_run(json.loads(played.out))
            holds(ask("breakdown", folder / "run", "--json") is not None, "a run that cannot be read back")
            done = "ok"
    return done


def small(file: Path) -> bool:
    from netsim import load_scenario

    return load_scenario(str(file)).size <= LARGEST


def check_plan(plan: dict[str, Any]) -> None:
    """A plan is of finite times, and nobody gets less than nothing."""
    if not plan["feasible"]:
        holds(bool(plan["reason"]), "no plan, and no reason")
        return
    for name in ("round_s", "energy_j", "solve_s"):
        holds(math.isfinite(plan[name]) and plan[name] >= 0, f"{name} = {plan[name]}")
    for device in plan["devices"]:
        for name in ("bandwidth_hz", "cpu_hz", "power_w", "compute_s", "upload_s", "energy_j"):
            holds(math.isfinite(device[name]) and device[name] >= 0, f"{name} = {device[name]}")
        took = device["compute_s"] + device["upload_s"]
        holds(took <= plan["round_s"] * (1 + 1e-6), f"a device takes {took} s of {plan['round_s']} s")


def check_run(result: dict[str, Any]) -> None:
    """Rounds make up the run, and parts make up the rounds."""
    holds(result["rounds"] <= 2 and len(result["round_s"]) == result["rounds"], f"{result['rounds']} rounds")
    total = math.fsum(result["round_s"])
    holds(math.isfinite(total) and result["energy_j"] >= 0, f"{total} s, {result['energy_j']} J")
    holds(math.isclose(total, result["simulated_s"], rel_tol=1e-6, abs_tol=1e-12), "rounds do not make up the run")
    parts = math.fsum(result["breakdown"].values())
    holds(parts <= total * (1 + 1e-6) + 1e-12, f"parts of {parts} s in {total} s")


# Folders: a finished run, a finished one that has learned, and one that was cut off while learning.

LEARNED = ["--set", "end.rounds=3", "--set", "learning.local_iterations=1", "--set", "population.phone.count=6",
           "--set", "population.phone.samples=12", "--set", "selection.cohort=2", "--set", "learning.model=fashion-cnn",
           "--workers", "1", "--json"]
RUNS: dict[str, tuple[object, ...]] = {
    "rounds": ("run", "tiny", "--set", "end.rounds=6", "--json"),
    "learned": ("run", "quickstart", *LEARNED),
    "cut": ("run", "quickstart", *LEARNED),
}


def make_runs(home: Path) -> None:
    """The undamaged runs, and what the commands say of them."""
    for name, words in RUNS.items():
        netsim(*words, "--out", home / "whole" / name)
        if name == "cut":
            shutil.rmtree(home / "whole" / name)
            cut_off(words, home / "whole" / name)
        shutil.copytree(home / "whole" / name, home / "asked" / name)
        said = {kind: answer.out for kind, answer in readers(name, home / "asked" / name) if answer.code == 0}
        (home / f"{name}.json").write_text(json.dumps(
            {kind: plain(out, home / "asked" / name) for kind, out in said.items()}))


def cut_off(words: tuple[object, ...], folder: Path) -> None:
    """Stop a run after its second round, as a signal would."""
    from netsim.server import synchronous

    class Cut(BaseException):
        pass

    was = synchronous.Synchronous.ended

    def ended(self: Any, cell: Any) -> bool:
        if cell.version >= 2:
            raise Cut
        return was(self, cell)

    synchronous.Synchronous.ended = ended      # type: ignore[method-assign]
    try:
        with contextlib.suppress(Cut):
            netsim(*words, "--out", folder)
    finally:
        synchronous.Synchronous.ended = was    # type: ignore[method-assign]


def readers(name: str, folder: Path) -> Iterator[tuple[str, Answer]]:
    """Every command that reads a run's folder; going on with it comes last, since it may complete it."""
    yield "breakdown", netsim("breakdown", folder, "--json")
    yield "path", netsim("critical-path", folder, "--json")
    exported = netsim("export", folder, "--format", "csv", "--out", folder.parent / "x.csv", "--force")
    text = (folder.parent / "x.csv").read_text() if exported.code == 0 else exported.out
    yield "export", Answer(exported.code, text, exported.err)
    resumed = netsim(*RUNS[name], "--out", folder, "--resume")
    yield "resume", resumed
    if resumed.code == 0:
        yield "again", netsim("breakdown", folder, "--json")


def plain(out: str, folder: Path) -> str:
    """An answer without the place where the run lies."""
    return out.replace(str(folder), "RUN")


def damage(path: Path, chance: random.Random) -> str:
    """Bytes of a file turn, are zeroed, lost or added; says what was done."""
    content = bytearray(path.read_bytes())
    way = chance.choice(["flip", "flip", "zero", "cut", "more", "swap"]) if content else "more"
    at = chance.randrange(len(content)) if content else 0
    if way == "flip":
        for _ in range(chance.choice([1, 1, 2, 4, 8])):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    elif way == "zero":
        length = min(chance.choice([1, 4, 64, 512, 4096]), len(content) - at)
        content[at : at + length] = bytes(length)
    elif way == "cut":
        del content[at:]
    elif way == "more":
        content[at:at] = chance.randbytes(chance.choice([1, 16, 512]))
    else:
        other = chance.randrange(len(content))
        content[at], content[other] = content[other], content[at]
    path.write_bytes(content)
    return f"{way} at {at} of {path.name}"


def folder_case(chance: random.Random, folder: Path, home: Path) -> str:
    """A file of a run is damaged, or lost; every command says so, or answers as if it were not."""
    name = chance.choice(list(RUNS))
    run = folder / "run"
    shutil.copytree(home / "whole" / name, run)
    files = sorted(path for path in run.rglob("*") if path.is_file() and path.name != "lock")
    victim = chance.choice(files)
    if chance.random() < 0.05:
        victim.unlink()
        what = f"{victim.name} lost"
    else:
        what = damage(victim, chance)
    expected = json.loads((home / f"{name}.json").read_text())
    refused = False
    for kind, answer in readers(name, run):
        if not tell(answer, kind, what, "of", name):
            refused = True
        elif plain(answer.out, run) != expected.get(kind):
            raise FaultError("wrong", f"{name}, {what}: {kind} says something else and exits with 0")
    return "refused" if refused else "ok"


# Tables: sweep files, fleets in CSV, recorded channels and partitions.

SWEEP = 'scenario = "tiny"\nseeds = 2\nlearning = false\nset.selection.method = "fedavg"\n' \
        'grid.allocation.method = ["sao", "equal"]\ngrid.cell.bandwidth = ["1 MHz", "2 MHz"]\n'
FLEET = "name,x,y,samples,battery\nada,10 m,20 m,30,1 J\nbob,-50 m,3 m,40,2 J\neve,7 m,-9 m,20,3 J\n"
OWN = """
[cell]
radius = "200 m"
bandwidth = "20 MHz"
[[population]]
name = "phone"
{devices}
cpu = {{ min = "0.2 GHz", max = "2 GHz", cycles_per_sample = 1e5 }}
radio = {{ power = "23 dBm" }}
budget = "60 mJ"
[learning]
{learning}
[selection]
method = "fedavg"
cohort = 2
[end]
rounds = 2
"""


def table_case(chance: random.Random, folder: Path) -> str:
    """A sweep, a fleet or a partition is changed, and asked for."""
    kind = chance.choice(["sweep", "fleet", "partition"])
    if kind == "sweep":
        file = written(folder / "sweep.toml", mutant(SWEEP, chance))
        return "refused" if ask("sweep", file, "--status") is None else "ok"
    if kind == "fleet":
        written(folder / "fleet.csv", mutant_table(FLEET, chance))
        text = OWN.format(devices='devices = "fleet.csv"', learning='bits = "400 kbit"')
    else:
        split = json.dumps({str(device): [10 * device + i for i in range(8)] for device in range(3)})
        written(folder / "split.json", chance.choice([mutant_table, raw, token])(split, chance))
        text = OWN.format(devices='count = 3\nsamples = "auto"', learning=(
            'dataset = "digits"\nmodel = "fashion-cnn"\nbits = "400 kbit"\n'
            'partition = { kind = "file", path = "split.json" }'))
    file = written(folder / "self.toml", text)
    plans = ask("allocate", file, "--json")
    for plan in json.loads(plans.out) if plans else []:
        check_plan(plan)
    return "refused" if plans is None else "ok"


def mutant_table(text: str, chance: random.Random) -> str:
    """Cells and rows of a table change, are lost, or come twice."""
    for _ in range(chance.choice([1, 1, 2, 3])):
        text = chance.choice([token, number, lines, raw, commas])(text, chance)
    return text


def commas(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice([",", '"', "\n", ";", "\t", "=1+1", "\ufeff", "," * 5000]) + text[at:]


# The campaign: each case in a process of its own, with a limit.

def case(kind: str, seed: int, number: int, home: Path, keep: Path | None = None) -> tuple[str, str]:
    """How a case ends, and what was said."""
    chance = random.Random(f"{kind}-{seed}-{number}")
    folder = keep or Path(mkdtemp(prefix="case-", dir=home))
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    try:
        if kind == "folders":
            return folder_case(chance, folder, home), ""
        return {"scenarios": scenario_case, "tables": table_case}[kind](chance, folder), ""
    except FaultError as fault:
        return fault.how, str(fault)
    except Exception:
        return "traceback", traceback.format_exc()
    finally:
        if keep is None:
            os.chdir(home)
            shutil.rmtree(folder, ignore_errors=True)


def forked(work: Callable[[], tuple[str, str]]) -> tuple[int, int]:
    """Start a case; its process, and the pipe with its end."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))      # a case must not take the machine down
        with open(os.devnull, "w") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        with os.fdopen(theirs, "w") as pipe:
            json.dump(work(), pipe)
        os._exit(0)
    os.close(theirs)
    return child, ours


def campaign(kind: str, seed: int, numbers: range, home: Path, jobs: int, until: float) -> tuple[Counter[str], int]:
    """Play cases of a kind, some at a time; how many ended how, and the number to go on from."""
    counts: Counter[str] = Counter()
    running: dict[int, tuple[int, int, float]] = {}
    waiting, after = iter(numbers), numbers.start
    while True:
        while len(running) < jobs and time.monotonic() < until and (number := next(waiting, None)) is not None:
            child, pipe = forked(lambda number=number: case(kind, seed, number, home))      # type: ignore[misc]
            running[pipe] = (child, number, time.monotonic())
            after = number + 1
        if not running:
            return counts, after
        ready, _, _ = select.select(list(running), [], [], 0.5)
        late = [pipe for pipe, (child, _, began) in running.items()
                if time.monotonic() - began > (LIMIT_S if computed_s(child) > LIMIT_S else WAIT_S)]
        for pipe in {*ready, *late}:
            child, number, _ = running.pop(pipe)
            how, words = finished(pipe, child, hang=pipe not in ready)
            counts[how] += 1
            if how in FAULTS:
                print(f"{kind}:{number} {how}: {words}", flush=True)


def computed_s(child: int) -> float:
    """Seconds that a process has computed, where the system tells; else as much as anybody could."""
    try:
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return math.inf
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def finished(pipe: int, child: int, *, hang: bool) -> tuple[str, str]:
    """The end of a case."""
    if hang:
        os.killpg(child, signal.SIGKILL)
    with os.fdopen(pipe) as file:
        told = file.read()
    _, status = os.waitpid(child, 0)
    if hang:
        return "hang", f"not done after {LIMIT_S:.0f} s of computing, or {WAIT_S:.0f} s on the clock"
    if not told:
        return "traceback", f"the process ended with status {status} and without a word"
    how, words = json.loads(told)
    return how, words


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for kind, size in zip(KINDS, (10_000, 2_000, 1_000), strict=True):
        parser.add_argument(f"--{kind}", type=int, default=size, metavar="N")
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--first", type=int, default=0, help="number of the first case of each kind")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no more cases of a kind after so long")
    parser.add_argument("--only", help="one case again, such as folders:17")
    parser.add_argument("--keep", type=Path, help="folder for what --only reads")
    given = parser.parse_args()
    home = Path(mkdtemp(prefix="netsim-fuzz-"))
    try:
        return play(given, home)
    finally:
        os.chdir("/")
        shutil.rmtree(home, ignore_errors=True)


def play(given: argparse.Namespace, home: Path) -> int:
    """All of it; returns how many faults there were."""
    import torch

    import netsim.simulate  # here, so that the cases need not import anything  # noqa: F401
    from netsim.learning.learner import open_learner  # noqa: F401

    torch.set_num_threads(1)
    child, pipe = forked(lambda: (make_runs(home), ("made", ""))[1])      # type: ignore[func-returns-value]
    finished(pipe, child, hang=False)
    if given.only:
        kind, number = given.only.split(":")
        how, words = case(kind, given.seed, int(number), home, given.keep and given.keep.resolve())
        print(f"{how}\n{words}")
        return how in FAULTS
    print(f"seed {given.seed}; cases from {given.first} on", flush=True)
    total: Counter[str] = Counter()
    rows = []
    for kind in KINDS:
        last = given.first + getattr(given, kind)
        until = time.monotonic() + 60 * given.minutes
        counts, after = campaign(kind, given.seed, range(given.first, last), home, given.jobs, until)
        rows.append((kind, counts, after))
        total += counts
    print("\ncases       played      ok  refused  traceback  wrong  hang  go on")
    for kind, counts, after in rows:
        print(f"{kind:10s} {counts.total():7d} {counts['ok']:7d} {counts['refused']:8d} {counts['traceback']:10d} "
              f"{counts['wrong']:6d} {counts['hang']:5d}  --first {after}")
    return sum(total[how] for how in FAULTS)


if __name__ == "__main__":
    sys.exit(main() > 0)

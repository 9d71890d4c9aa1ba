"""Laws that hold in every world, tried in as many random ones as asked: python benchmarks/invariants.py.

    python benchmarks/invariants.py --worlds 1000 --seed 17 --jobs 2 --counted invariants.jsonl     # goes on there
    python benchmarks/invariants.py --seed 17 --only 40      # one world again, with its scenario

A world is a small cell with every feature on or off by chance (benchmarks/campaign/worlds.py); it follows from the seed
and its number alone, and its run has the number as its seed. Every so many worlds train a small model, with one worker
and with two. The laws are in benchmarks/campaign/laws.py. A world ends in one of four ways:

    kept          all laws hold
    refused       the world is none that can be simulated, and a sentence says why
    broken        a law does not hold, or the simulation stopped with an exception
    too long      not done after a minute of computing

The exit code says whether none was broken or took too long.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")

from campaign.laws import LAWS, OF_LEARNING, check_world
from campaign.worlds import draw_world

from netsim.base.errors import InputError

LIMIT_S = 60
LEARNING = 40        # one world of so many learns
Row = dict[str, Any]


class TooLongError(Exception):
    """A world was not done in time."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=1000, metavar="N")
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--jobs", type=int, default=1, metavar="J", help="processes")
    parser.add_argument("--counted", type=Path, metavar="FILE", help="keeps a line a world; goes on where it was left")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this world alone")
    asked = parser.parse_args()
    memory = Path("/dev/shm")
    if os.access(memory, os.W_OK):
        tempfile.tempdir = str(memory)        # a disk is no part of the trial
    if asked.only is not None:
        print(world(asked.seed, asked.only))
        rows = [played(asked.seed, asked.only)]
    else:
        rows = campaign(asked.seed, asked.worlds, asked.jobs, asked.counted)
    print("\n".join(table(rows)))
    for row in rows:
        if row["end"] in ("broken", "too long"):
            print(f"seed {asked.seed}, world {row['number']}: {row['end']}: {row['said']}")
    return int(any(row["end"] in ("broken", "too long") for row in rows))


def learns(number: int) -> bool:
    return number % LEARNING == LEARNING - 1


def world(seed: int, number: int) -> str:
    return draw_world(Random(f"{seed} {number}"), learns=learns(number))


def played(seed: int, number: int) -> Row:
    """One world: how it ended, what was said, and how many things each law has looked at."""
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    looked: dict[str, int] = {}
    try:
        looked = check_world(world(seed, number), number, learns=learns(number))
        end, said = "kept", ""
    except InputError as refusal:
        end, said = "refused", str(refusal)
    except TooLongError:
        end, said = "too long", f"not done after {LIMIT_S} s of computing"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        end, said = "broken", f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return {"number": number, "end": end, "said": said, "looked": looked}


def _too_long(*_: Any) -> None:
    raise TooLongError


def campaign(seed: int, worlds: int, jobs: int, counted: Path | None) -> list[Row]:
    """All worlds, those of before from the file."""
    known = {row["number"]: row for row in _read(counted, seed)}
    left = [number for number in range(worlds) if number not in known]
    with ProcessPoolExecutor(jobs) as pool:
        for row in pool.map(played, [seed] * len(left), left):
            known[row["number"]] = row
            if counted is not None:
                with counted.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"seed": seed, **row}) + "\n")
            if len(known) % 50 == 0:
                print(f"{len(known)} worlds, {sum(each['end'] == 'kept' for each in known.values())} kept all laws",
                      file=sys.stderr, flush=True)
    return [known[number] for number in range(worlds)]


def _read(file: Path | None, seed: int) -> Iterator[Row]:
    if file is not None and file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row.pop("seed") == seed:
                yield row


def table(rows: list[Row]) -> list[str]:
    """The counts, as they stand in docs/reliability.md."""
    ends = Counter(row["end"] for row in rows)
    said = ", ".join(f"{ends[end]} {end}" for end in ("kept", "refused", "broken", "too long"))
    lines = [f"{len(rows)} worlds: {said}", "", "| law | worlds | looked at |", "|---|---|---|"]
    for law in (*LAWS, *OF_LEARNING):
        found = [row["looked"][law] for row in rows if row["looked"].get(law)]
        lines.append(f"| {law} | {len(found):,} | {sum(found):,} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())

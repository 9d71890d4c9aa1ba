"""What campaigns over random worlds have in common: the command line, the time limit, and counts that are resumed.

A campaign is a function ``check(seed, number)`` that looks at one world and returns what it has counted, by name. It
raises InputError where the world cannot be simulated, and any other exception where something is wrong.
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
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from netsim.base.errors import InputError

LIMIT_S = 60         # CPU seconds of a world
FAULTS = ("broken", "too long")
Row = dict[str, Any]
Check = Callable[[int, int], dict[str, float]]


class TooLongError(Exception):
    """A world was not done in time."""


def main(
    doc: str, check: Check, show: Callable[[int, int], str], table: Callable[[list[Row]], list[str]], *,
    worlds: int = 1000, seed: int = 17,
) -> int:
    """Run a campaign from the command line; ``show`` returns a world as text, ``table`` the counts of all."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=worlds, metavar="N", help=f"number of worlds ({worlds})")
    parser.add_argument("--seed", type=int, default=seed, help=f"of the campaign ({seed})")
    parser.add_argument("--jobs", type=int, default=1, metavar="J", help="processes")
    parser.add_argument("--counted", type=Path, metavar="FILE", help="keep a line per world; resume from it")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this world alone")
    asked = parser.parse_args()
    memory = Path("/dev/shm")
    if os.access(memory, os.W_OK):
        tempfile.tempdir = str(memory)        # a disk is no part of the trial
    if asked.only is not None:
        print(show(asked.seed, asked.only))
        rows = [played(check, asked.seed, asked.only)]
    else:
        rows = campaign(check, asked.seed, asked.worlds, asked.jobs, asked.counted)
    ends = Counter(row["end"] for row in rows)
    print(f"{len(rows)} worlds: " + ", ".join(f"{ends[end]} {end}" for end in ("kept", "refused", *FAULTS)))
    print("\n".join(["", *table(rows)]))
    for row in rows:
        if row["end"] in FAULTS:
            print(f"seed {asked.seed}, world {row['number']}: {row['end']}: {row['said']}")
    return int(any(row["end"] in FAULTS for row in rows))


def played(check: Check, seed: int, number: int) -> Row:
    """One world: how it ended, why, and what was counted."""
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    looked: dict[str, float] = {}
    try:
        looked = check(seed, number)
        end, said = "kept", ""
    except InputError as refusal:
        end = "broken" if refusal.code == "damaged" else "refused"      # netsim wrote the file that it cannot read
        said = str(refusal)
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


def campaign(check: Check, seed: int, worlds: int, jobs: int, counted: Path | None) -> list[Row]:
    """All worlds; those of an earlier campaign come from the file."""
    known = {row["number"]: row for row in _read(counted, seed)}
    left = [number for number in range(worlds) if number not in known]
    with ProcessPoolExecutor(jobs) as pool:
        for row in pool.map(played, [check] * len(left), [seed] * len(left), left):
            known[row["number"]] = row
            if counted is not None:
                with counted.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"seed": seed, **row}) + "\n")
            if len(known) % 50 == 0:
                faults = sum(each["end"] in FAULTS for each in known.values())
                print(f"{len(known)} worlds, {faults} broken", file=sys.stderr, flush=True)
    return [known[number] for number in range(worlds)]


def _read(file: Path | None, seed: int) -> Iterator[Row]:
    if file is not None and file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row.pop("seed") == seed:
                yield row


def totals(rows: list[Row], name: str) -> list[float]:
    """What worlds have counted under a name; those that looked at nothing are left out."""
    return [row["looked"][name] for row in rows if row["looked"].get(name)]

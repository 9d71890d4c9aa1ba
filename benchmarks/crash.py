"""Kill a run with signal 9 at random moments and resume it: python benchmarks/crash.py [KILLS].

Every row must end in the trace hash and the weights of the run that nobody killed. The exit code says whether it did.
"""

from __future__ import annotations

import hashlib
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

RUN = ["run", "quickstart", "--set", "end.rounds=8", "--set", "learning.local_iterations=2", "--seed", "11",
       "--workers", "2", "--json"]


def main(kills: int) -> int:
    """Run once undisturbed, then kill and resume; prints a table and returns how many rows differ."""
    chance = random.Random(1)
    with TemporaryDirectory(prefix="netsim-crash-") as name:
        folder = Path(name)
        whole = netsim(folder / "whole")
        starting = until_begun(whole, folder / "whole")
        began = time.perf_counter()
        whole.wait()
        lasted = time.perf_counter() - began
        wanted = fingerprint(folder / "whole")
        print(f"unbroken run: {starting:.1f} s until its folder is there, {lasted:.1f} s more; "
              f"trace {wanted[0][:12]}, weights {wanted[1][:12]}")
        print(" kill  after s  complete rounds  orphans  same trace  same weights")
        bad = 0
        for number in range(1, kills + 1):
            run = folder / f"killed-{number}"
            process = netsim(run)
            before = until_begun(process, run) if number % 10 else 0.0       # one in ten is killed while it starts
            delay = chance.uniform(0.0, lasted if number % 10 else starting)
            time.sleep(delay)
            workers = children(process.pid)
            process.send_signal(signal.SIGKILL)
            process.wait()
            complete = rounds_of(run)
            left = outlived(workers)
            resumed = netsim(run, "--resume")
            same = (False, False)
            if resumed.wait() == 0:
                found = fingerprint(run)
                same = (found[0] == wanted[0], found[1] == wanted[1])
            bad += not all(same)
            print(f"{number:5d} {before + delay:8.2f} {complete:>16} {left:8d} {yes(same[0]):>11} {yes(same[1]):>13}",
                  flush=True)
        print(f"{kills - bad} of {kills} ended as the unbroken run")
        return bad


def netsim(out: Path, *words: str) -> subprocess.Popen[bytes]:
    """The run, in a process of its own."""
    return subprocess.Popen([sys.executable, "-m", "netsim", *RUN, "--out", str(out), *words],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def until_begun(process: subprocess.Popen[bytes], run: Path) -> float:
    """Wait until the run's folder is ready; returns the seconds that took."""
    began = time.perf_counter()
    while not (run / "run.json").exists() and process.poll() is None:
        time.sleep(0.005)
    return time.perf_counter() - began


def fingerprint(run: Path) -> tuple[str, str]:
    """The trace's hash, and one of the final weights."""
    import torch

    weights = torch.load(run / "checkpoint.pt", weights_only=True)["weights"].numpy()
    return json.loads((run / "summary.json").read_text())["trace_sha256"], hashlib.sha256(weights.tobytes()).hexdigest()


def rounds_of(run: Path) -> str:
    """The last complete round, as run.json says."""
    file = run / "run.json"
    return str(json.loads(file.read_text())["round"]) if file.exists() else "not begun"


def children(pid: int) -> list[int]:
    """The processes that a process has started, on Linux."""
    file = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in file.read_text().split()] if file.exists() else []


def outlived(workers: list[int], seconds: float = 20.0) -> int:
    """How many workers are still there some time after their parent was killed."""
    end = time.monotonic() + seconds
    while (left := [pid for pid in workers if Path(f"/proc/{pid}").exists()]) and time.monotonic() < end:
        time.sleep(0.05)
    return len(left)


def yes(value: bool) -> str:
    return "yes" if value else "NO"


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 50) > 0)

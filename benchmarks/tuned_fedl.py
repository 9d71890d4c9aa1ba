"""Tuned `fedl` on problems for which a good lambda is known: false verdicts, and how far lambda is from the largest.

    python benchmarks/tuned_fedl.py [--problems 5000] [--seed 1] [--check 100]

Budgets are the energies of the plan at a random lambda, times 1 + eps. That lambda is good, so the answer must be at
least as large. For the first ``--check`` problems it is also held against a scan of many rounds in which every dip of
the excess over budgets is refined.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from netsim.allocation import Infeasible
from netsim.allocation.fedl import tune


def main() -> None:
    sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "allocation"))
    from fedl_scan import largest_by_scan, with_a_good_weight

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=5000)
    parser.add_argument("--check", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    false, small, behind, worst, took = 0, 0, 0, 0.0, []
    for number in range(given.problems):
        problem, weight = with_a_good_weight(rng)
        began = time.process_time()
        try:
            found, plan = tune(problem)
        except Infeasible:
            false += 1
            print(f"problem {number}: falsely infeasible, though lambda {weight!r} is good")
            continue
        finally:
            took.append(time.process_time() - began)
        if plan.over_budget.any() or found < weight * (1.0 - 1e-6):
            small += 1
            print(f"problem {number}: lambda {found!r}, though {weight!r} is good")
        if number < given.check:
            scanned = largest_by_scan(problem)[1]
            worst = max(worst, 1.0 - found / scanned if found < scanned < np.inf else 0.0)
            if found < scanned * (1.0 - 1e-6):
                behind += 1
                print(f"problem {number}: lambda {found!r}, a scan finds {scanned!r}")
    print(f"{given.problems} problems (seed {given.seed}): {false} falsely infeasible, {small} with too small a "
          f"lambda; {min(given.check, given.problems)} scanned: {behind} behind, by at most {worst:.1e}; "
          f"CPU ms a problem: median {1e3 * np.median(took):.1f}, 99 % {1e3 * np.quantile(took, 0.99):.1f}, "
          f"most {1e3 * max(took):.1f}")


if __name__ == "__main__":
    main()

"""The command line as the cases use it, and what every answer must hold to."""

from __future__ import annotations

import contextlib
import io
import math
import sys
import traceback
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def refused(self) -> bool:
        """Whether it said one sentence, as far as one can tell: no traceback, and nothing without end."""
        errors = [line for line in self.err.splitlines() if line.startswith("error: ")]
        usage = "Usage: " in self.err      # of the command line's own parser
        return self.code == 2 and (len(errors) == 1 or usage) and "Traceback" not in self.err and len(self.err) < 20_000


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


def check_plan(plan: dict[str, Any]) -> None:
    """A plan is of finite times, and no device gets a negative share."""
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

"""Report on a reproduced table or figure: findings, numbers and a figure, and their files."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from netsim.base import units
from netsim.base.figures import Figure, library, save_figure
from netsim.base.files import make_folder, read_json, replace_text, safe_cell

Verdict = Literal["agrees", "agrees in part", "differs", "can't hold", "open", "not measured"]


@dataclass(frozen=True)
class Finding:
    """Statement of the paper, in our words, and the measurement."""

    paper: str
    measured: str            # with the spread over layouts or trials
    verdict: Verdict
    why: str = ""

    @property
    def words(self) -> str:
        return f"**{self.verdict}**" + (f": {self.why}" if self.why else "")


# Rule of all verdicts, as stated in results/paper; README and docs quote the table.
RULE = (
    "The rule for a verdict: a statement about datasets, sizes or layouts *agrees* where it holds in each of them and "
    "*agrees in part* where it holds in some, whatever the mean over all of them is; one that compares two methods in "
    "paired runs agrees or *differs* only where a two-sided sign test at 5 % says so, and is *open* otherwise: then "
    "nothing is shown either way, and an interval beside it is a description of these runs."
)


def all_or_some(parts: Sequence[bool]) -> Verdict:
    """Return the verdict on a statement by whether each of its parts holds; parts are never averaged."""
    return "agrees" if all(parts) else "agrees in part" if any(parts) else "differs"


def nothing_yet(paper: str) -> Finding:
    return Finding(paper, "no finished runs to compare yet", "not measured")


@dataclass(frozen=True, eq=False)
class Report:
    """Reproduced table or figure."""

    findings: Sequence[Finding]
    how: str                               # how it was measured
    rows: Sequence[Mapping[str, Any]]      # numbers.csv
    summary: Mapping[str, Any]             # in numbers.json, beside the findings
    figure: Figure
    seconds: float | None = None           # computing time of stored trials, if any


@dataclass(frozen=True)
class About:
    """Origin of a report, stored apart from its numbers, which are the same every time."""

    target: str
    title: str
    command: str
    seconds: float
    quick: bool
    says: str = "the paper"      # source of the statements


def write_report(folder: Path, report: Report, about: About) -> None:
    """Write figure.png, figure.svg, numbers.csv, numbers.json, about.json and README.md."""
    make_folder(folder)
    for ending, dpi, stamp in (("png", 130, "Software"), ("svg", "figure", "Date")):
        # Reproducible bytes: no dates, fixed ids.
        with library().rc_context({"svg.hashsalt": "netsim", "svg.fonttype": "none"}):
            save_figure(report.figure, folder / f"figure.{ending}", dpi=dpi, metadata={stamp: None})
    replace_text(folder / "numbers.csv", _csv(report.rows))
    replace_text(folder / "README.md", _text(report, about))
    replace_text(folder / "about.json", json.dumps(asdict(about), indent=1) + "\n")
    numbers = {"findings": [asdict(finding) for finding in report.findings], "summary": short(report.summary)}
    replace_text(folder / "numbers.json", json.dumps(numbers, indent=1, allow_nan=False) + "\n")


def read_report(folder: Path) -> tuple[About, list[Finding]] | None:
    """Read the report of a target; None if it is missing or has another format."""
    try:
        about = About(**read_json(folder / "about.json", "a report"))
        findings = [Finding(**entry) for entry in read_json(folder / "numbers.json", "a report")["findings"]]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return about, findings


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(safe_cell, columns))
    writer.writerows([safe_cell(short(row.get(name, ""))) for name in columns] for row in rows)
    return text.getvalue()


def short(value: Any) -> Any:
    """Round numbers to seven digits: more than significant, fewer than those in which machines differ."""
    if isinstance(value, Mapping):
        return {name: short(item) for name, item in value.items()}
    if isinstance(value, list):
        return [short(item) for item in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def _text(report: Report, about: About) -> str:
    lines = [f"# {about.target}: {about.title}", "", "![figure](figure.png)", ""]
    if about.quick:
        lines += ["A small version on the `digits` data: it shows that the measurement works, not what the paper's "
                  "would show.", ""]
    lines += markdown((about.says, "measured", ""), [
        (finding.paper, finding.measured, finding.words) for finding in report.findings])
    lines += ["", report.how, "", f"Again: `{about.command}`. All numbers: [numbers.csv](numbers.csv), "
              "[numbers.json](numbers.json); [figure.svg](figure.svg).", ""]
    return "\n".join(lines)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    first = f"| {' | '.join(head)} |".replace("|  |", "| |")
    return [first, "|" + "---|" * len(head), *(f"| {' | '.join(cells)} |" for cells in rows)]


def overview(folder: Path, targets: Sequence[str], says: str) -> str:
    """Return the number of statements that hold, and the table of all targets reproduced in a folder."""
    verdicts: Counter[Verdict] = Counter()
    rows = []
    for target in targets:
        written = read_report(folder / target)
        if written is None:
            continue
        about, findings = written
        verdicts.update(finding.verdict for finding in findings)
        marks = [f"({chr(ord('a') + i)}) " for i in range(len(findings))] if len(findings) > 1 else [""]
        cells = ["<br>".join(mark + getattr(finding, column) for mark, finding in zip(marks, findings, strict=True))
                 for column in ("paper", "measured", "words")]
        rows.append((f"[{target}]({target}/README.md): {about.title}", *cells, f"`{about.command}`",
                     units.computing(about.seconds)))
    there = [verdict for verdict in get_args(Verdict) if verdicts[verdict]]
    counts = markdown(("statements", *there), [[str(verdicts.total()), *(str(verdicts[each]) for each in there)]])
    table = markdown(("target", says, "measured here", "", "command", "computing"), rows)
    return "\n".join([*counts, "", *table]) + "\n"

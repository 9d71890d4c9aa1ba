"""Files of a trace's parts, each with a checksum that is verified when it is read.

``checksums.sha256`` has one line per file that does not change, in the format of ``sha256sum``. A line is added after
its file is on the disk, so a crash leaves at most lines or files that the checkpoint does not contain; they are removed
when the run is resumed.
"""

from __future__ import annotations

import hashlib
import os
import re
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from netsim.base.errors import InputError
from netsim.base.files import open_to_read, open_to_write, read_bytes, replace_file, replace_text
from netsim.trace.recorder import Part
from netsim.trace.schema import TABLES, polars_schema

if TYPE_CHECKING:
    import polars as pl

CHECKSUMS = "checksums.sha256"
MOST_BYTES = 1 << 40         # of a file: enough for any part, but not for an endless device file
_LINE = re.compile(r"([0-9a-f]{64})  (\S[^\n]*)\n")


def write_part(folder: Path, first_round: int, part: Part) -> None:
    """Write a part as ``links/part-00012.parquet``, ``jobs/…`` and ``trace/…``, each atomically."""
    import polars as pl

    texts = pl.Series(part.texts, dtype=pl.String)
    sums = []
    for table in ("links", "jobs", "trace"):
        schema = polars_schema(table)
        columns = {name: texts.gather(values) if schema[name] == pl.String else pl.Series(values, dtype=schema[name])
                   for name, values in part.tables[table].items()}
        content = BytesIO()
        # level 1: times do not repeat, so that higher levels make files no smaller
        pl.DataFrame(columns).write_parquet(content, compression="zstd", compression_level=1)
        name = f"{table}/part-{first_round:05d}.parquet"
        sums.append((name, write_file(folder / name, content.getvalue())))
    add_checksums(folder, sums)


def write_file(path: Path, content: bytes) -> str:
    """Write a file atomically and return its checksum."""
    replace_file(path, lambda file: file.write(content))
    return hashlib.sha256(content).hexdigest()


def add_checksums(folder: Path, sums: list[tuple[str, str]]) -> None:
    lines = "".join(f"{checksum}  {name}\n" for name, checksum in sums)
    try:
        with open_to_write(folder / CHECKSUMS, keep=True) as file:
            file.seek(0, os.SEEK_END)
            file.write(lines.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        error.filename = str(folder / CHECKSUMS)
        raise


def read_checksums(folder: Path) -> dict[str, str]:
    """Return the checksums by file name; the last one of a file that was written again after a crash."""
    try:
        text = read_bytes(folder / CHECKSUMS, "checksums").decode("utf-8", "replace")
    except OSError as error:
        raise InputError("unreadable", str(folder / CHECKSUMS), error.strerror) from None
    return {name: checksum for checksum, name in _LINE.findall(text)}


def keep_checksums(folder: Path, names: set[str]) -> None:
    """Remove the checksums of all files except ``names``."""
    kept = {name: checksum for name, checksum in read_checksums(folder).items() if name in names}
    replace_text(folder / CHECKSUMS, "".join(f"{checksum}  {name}\n" for name, checksum in kept.items()))


def verify(folder: Path, name: str, checksums: dict[str, str], noted_in: str = CHECKSUMS) -> None:
    """Raise :class:`InputError` unless a file has its checksum."""
    path = folder / name
    try:
        with open_to_read(path, "a file of a run", MOST_BYTES) as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()      # type: ignore[arg-type]
    except OSError as error:
        raise InputError("unreadable", str(path), error.strerror or str(error)) from None
    if found != checksums.get(name):
        raise InputError("damaged", str(path), f"another checksum than {noted_in} says", "the file that netsim wrote")


def part_files(folder: Path, table: str, last_round: int) -> list[Path]:
    """Return the part files that start no later than ``last_round``, in order."""
    return [path for path in sorted((folder / table).glob("part-*.parquet"), key=first_round_of)
            if first_round_of(path) <= last_round]


def refuse_missing(folder: Path, table: str, last_round: int, checksums: dict[str, str]) -> None:
    """Raise InputError unless all parts with a checksum exist."""
    for name in checksums:
        if name.startswith(f"{table}/") and first_round_of(Path(name)) <= last_round and not (folder / name).exists():
            raise InputError("missing", str(folder / name), hint="The run is damaged")


def first_round_of(path: Path) -> int:
    try:
        return int(path.name.removeprefix("part-").partition(".")[0])
    except ValueError:
        raise InputError("damaged", str(path), expected="a part of a trace, such as part-00012.parquet") from None


def scan(folder: Path, table: str, last_round: int, checksums: dict[str, str]) -> pl.LazyFrame:
    """Verify all complete parts of a table and return them as one lazy frame."""
    import polars as pl

    assert table in TABLES
    schema = polars_schema(table)
    refuse_missing(folder, table, last_round, checksums)
    files = part_files(folder, table, last_round)
    for file in files:
        verify(folder, f"{table}/{file.name}", checksums)
        try:
            with file.open("rb") as opened:      # polars would expand a [ in a path as a pattern
                found = pl.read_parquet_schema(opened)
        except (pl.exceptions.PolarsError, OSError) as error:
            raise InputError("unreadable", str(file), str(error), "a part of a trace") from None
        if dict(found) != schema:
            raise InputError("damaged", str(file), f"columns {dict(found)}", str(schema))
    return pl.scan_parquet(files, glob=False) if files else pl.DataFrame(schema=schema).lazy()

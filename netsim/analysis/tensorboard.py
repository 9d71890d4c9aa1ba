"""Export of a run's rounds as a TensorBoard event file, written without TensorBoard.

An event file is a sequence of TFRecords (length, checksum, content, checksum) whose contents are protocol buffers:
one ``Event`` per round, with the round as step and the simulated time in place of the wall-clock time, so that
TensorBoard's axis "Relative" shows simulated time.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import IO

from netsim.run import Run

TAGS = {      # by column of the table of rounds
    "accuracy": "model/accuracy", "loss": "model/loss", "round_s": "round/duration_s", "energy_j": "round/energy_j",
    "cohort": "round/cohort", "arrived": "round/arrived", "dropped": "round/dropped",
    "compute_s": "device/compute_s", "upload_s": "device/upload_s", "wait_s": "device/wait_s",
}
LARGEST = 3.4e38                # of a 32-bit float
VERSION = b"brain.Event:2"      # of the file format
POLYNOMIAL = 0x82F63B78         # of CRC-32C, reflected


def write_tensorboard(run: Run, file: IO[bytes]) -> None:
    """Write an event per round: accuracy, loss, duration, energy, devices, and where the time went."""
    file.write(record(_double(1, 0.0) + _bytes(3, VERSION)))
    for row in run.rounds.iter_rows(named=True):
        values = b"".join(
            _bytes(1, _bytes(1, tag.encode()) + _float(2, float(row[column]))) for column, tag in TAGS.items()
            if row.get(column) is not None and abs(row[column]) <= LARGEST)      # not NaN either
        file.write(record(_double(1, float(row["t1"])) + _varint(2 << 3) + _varint(row["round"]) + _bytes(5, values)))


def record(content: bytes) -> bytes:
    """Return a TFRecord: length, its checksum, content, its checksum; little-endian."""
    length = struct.pack("<Q", len(content))
    return length + struct.pack("<I", masked_crc(length)) + content + struct.pack("<I", masked_crc(content))


def masked_crc(content: bytes) -> int:
    """Return the CRC-32C, rotated and shifted as TFRecord prescribes.

    >>> hex(masked_crc(b"123456789"))
    '0xc78ab0e5'
    """
    crc, table = 0xFFFFFFFF, _crc_table()
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def _crc_table() -> tuple[int, ...]:
    def entry(crc: int) -> int:
        for _ in range(8):
            crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
        return crc

    return tuple(map(entry, range(256)))


# Fields of protocol buffers: the number and wire type of a field, then its value.

def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _float(field: int, value: float) -> bytes:
    return _varint(field << 3 | 5) + struct.pack("<f", value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value

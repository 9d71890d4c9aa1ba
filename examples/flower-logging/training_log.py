"""Flower client mod that appends one CSV row per training message, in the format of `netsim calibrate`.

    from training_log import training_log
    app = ClientApp(mods=[training_log("log.csv")])

Columns: device, round, t (start of training, Unix time in s), samples (of all passes), batch (size), compute_s (seconds
in the app's train function), bits (of the reply), download_bits (of the message). A training that raised an exception
leaves an empty compute_s. The mod needs nothing but flwr and changes neither message nor reply.
"""

import time
from collections.abc import Callable
from pathlib import Path

from flwr.app import Context, Message, RecordDict

COLUMNS = ("device", "round", "t", "samples", "batch", "compute_s", "bits", "download_bits")
Next = Callable[[Message, Context], Message]
Mod = Callable[[Message, Context, Next], Message]


def training_log(path: str, device: str = "", batch: int = 0, epochs: int = 0) -> Mod:
    """Return the mod.

    ``device`` is by default the node's ``name`` or ``partition-id``, else its id. ``batch`` and ``epochs`` are by
    default ``batch-size`` and ``local-epochs`` of the message's configuration or of the run's. Samples are the metric
    ``num-examples`` of the reply, times the epochs.
    """
    def log(message: Message, context: Context, call_next: Next) -> Message:
        if not message.metadata.message_type.startswith("train"):
            return call_next(message, context)
        settings = {**context.run_config, **_values(message.content, "config_records")}
        node = context.node_config
        row = {"device": device or node.get("name", node.get("partition-id", context.node_id)),
               "round": settings.get("server-round", message.metadata.group_id), "t": f"{time.time():.6f}",
               "batch": batch or settings.get("batch-size", ""), "download_bits": _bits(message.content)}
        began = time.perf_counter()
        try:
            reply = call_next(message, context)
        except Exception:
            _append(Path(path), {**row, "samples": row["batch"]})
            raise
        seconds = time.perf_counter() - began
        if reply.has_content():
            samples = _values(reply.content, "metric_records").get("num-examples", "")
            passes = epochs or settings.get("local-epochs", 1)
            row |= {"compute_s": f"{seconds:.6f}", "bits": _bits(reply.content),
                    "samples": samples * passes if samples else ""}
        _append(Path(path), {"samples": row["batch"], **row})
        return reply

    return log


def _values(content: RecordDict, records: str) -> dict:
    """Return all entries of the records of one type."""
    return {key: value for record in getattr(content, records).values() for key, value in record.items()}


def _bits(content: RecordDict) -> int:
    return 8 * sum(record.count_bytes() for record in content.values())


def _append(path: Path, row: dict) -> None:
    new = not path.exists()
    cells = [str(row.get(name, "")).replace(",", ";") for name in COLUMNS]
    with path.open("a", encoding="utf-8") as file:
        file.write((",".join(COLUMNS) + "\n" if new else "") + ",".join(cells) + "\n")

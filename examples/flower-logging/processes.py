"""Make a log with real processes: Flower clients that train a torch model under CPU and link limits.

    python examples/flower-logging/processes.py log.csv --rounds 40

Each client is a process of its own that runs a Flower ClientApp with the mod of training_log.py. The parent stops and
continues it (SIGSTOP, SIGCONT) so that it computes only a share of the time, sends it the model over a socket and
receives its update over a socket that the client fills no faster than its link allows. Durations are measured, none is
computed. Clients of a round work at the same time, and share the machine with everything else that runs on it.
"""

import argparse
import csv
import multiprocessing
import os
import signal
import socket
import struct
import tempfile
import threading
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from random import Random

CLIENTS = {     # share of a core, and bits per second of the uplink
    "kitchen": (0.10, 2e6), "hall": (0.15, 6e6), "garage": (0.20, 1.5e6), "office": (0.30, 12e6), "attic": (0.25, 3e6),
    "cellar": (0.40, 4e6)}
PERIOD_S = 0.02              # of stopping and continuing
CHUNK = 4096


def client(name: str, rate: float, port: int, folder: str) -> None:
    """Serve training messages until the parent closes the socket."""
    import numpy as np
    import torch
    from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from sklearn.datasets import load_digits
    from training_log import training_log

    torch.set_num_threads(1)
    images, labels = (torch.tensor(array) for array in load_digits(return_X_y=True))
    images = images.float().reshape(-1, 1, 8, 8) / 16
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 24, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(24, 48, 3, padding=1), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(48 * 64, 10))
    app = ClientApp(mods=[training_log(f"{folder}/{name}.csv", device=name)])

    def learn(samples: int, batch: int) -> None:
        optimiser = torch.optim.SGD(model.parameters(), 0.05)
        for part in torch.randperm(len(labels))[:samples].split(batch):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(images[part]), labels[part]).backward()
            optimiser.step()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        settings = message.content["config"]
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        learn(settings["samples"], settings["batch-size"])
        metrics = MetricRecord({"num-examples": settings["samples"]})
        return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)

    with suppress(ImportError):      # newer versions of Flower build messages only inside a task
        identity = import_module("flwr.supercore.task_identity").TaskIdentity
        identity.task_id = identity.run_id = identity.node_id = 1
    learn(64, 32)                    # the first steps import code
    weights = ArrayRecord(model.state_dict())
    context = Context(0, 0, {}, RecordDict(), {"batch-size": 1})
    with socket.create_connection(("127.0.0.1", port)) as link:
        link.sendall(name.encode().ljust(16))
        while order := receive(link, 12):
            number, samples, batch = struct.unpack("!III", order)
            config = ConfigRecord({"server-round": number, "samples": samples, "batch-size": batch})
            message = Message(RecordDict({"arrays": weights, "config": config}), dst_node_id=0, message_type="train")
            reply = app(message, context)
            body = b"".join(array.tobytes() for array in map(np.asarray, reply.content["arrays"].to_numpy_ndarrays()))
            began = time.monotonic()
            link.sendall(struct.pack("!dI", began, len(body)))
            for start in range(0, len(body), CHUNK):
                due = began + 8 * start / rate
                time.sleep(max(0.0, due - time.monotonic()))
                link.sendall(body[start:start + CHUNK])
            time.sleep(max(0.0, began + 8 * len(body) / rate - time.monotonic()))
            link.sendall(b".")


def receive(link: socket.socket, size: int) -> bytes:
    """Return this many bytes; fewer if the socket was closed."""
    parts = bytearray()
    while len(parts) < size and (part := link.recv(size - len(parts))):
        parts += part
    return bytes(parts) if len(parts) == size else b""


def limit(process: int, share: float, ended: threading.Event) -> None:
    """Let a process run for a share of each period."""
    while not ended.is_set():
        os.kill(process, signal.SIGCONT)
        ended.wait(PERIOD_S * share)
        os.kill(process, signal.SIGSTOP)
        time.sleep(PERIOD_S * (1 - share))
    os.kill(process, signal.SIGCONT)


def perform(link: socket.socket, order: tuple[int, int, int], found: dict, name: str) -> None:
    """Send one order, receive the update and measure its upload."""
    link.sendall(struct.pack("!III", *order))
    began, size = struct.unpack("!dI", receive(link, 12))
    receive(link, size + 1)
    found[order[0], name] = (time.monotonic() - began, 8 * size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--cohort", type=int, default=4, help="clients of a round")
    options = parser.parse_args()
    random, uploads = Random(1), {}
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        processes = {name: spawn.Process(target=client, args=(name, rate, port, folder), daemon=True)
                     for name, (_, rate) in CLIENTS.items()}
        for process in processes.values():
            process.start()
        links = {}
        for _ in processes:
            link, _ = server.accept()
            links[receive(link, 16).decode().strip()] = link
        ended = threading.Event()
        limits = [threading.Thread(target=limit, args=(process.pid, CLIENTS[name][0], ended))
                  for name, process in processes.items()]
        for thread in limits:
            thread.start()
        for number in range(1, options.rounds + 1):
            jobs = [threading.Thread(target=perform, args=(
                links[name], (number, random.randrange(200, 1400), random.choice((4, 8, 16, 32))), uploads, name))
                for name in random.sample(list(links), options.cohort)]
            for job in jobs:
                job.start()
            for job in jobs:
                job.join()
            print(f"round {number} of {options.rounds}", flush=True)
        ended.set()
        for thread in limits:
            thread.join()
        for link in links.values():
            link.close()
        rows = [row for file in Path(folder).glob("*.csv") for row in csv.DictReader(file.open(encoding="utf-8"))]
    for row in rows:
        seconds, bits = uploads[int(row["round"]), row["device"]]
        row |= {"upload_s": f"{seconds:.6f}", "bits": bits}
    with options.log.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(sorted(rows, key=lambda row: (int(row["round"]), row["device"])))


if __name__ == "__main__":
    main()

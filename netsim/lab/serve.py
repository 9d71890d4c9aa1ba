"""The lab's own small web server, for this machine only."""

from __future__ import annotations

import secrets
import socket
import sys
import threading
import webbrowser
from contextlib import AbstractContextManager, chdir, suppress
from importlib.resources import files
from importlib.util import find_spec

from netsim.base.errors import InputError
from netsim.lab.guard import Guard
from netsim.lab.lesson import folder, lessons
from netsim.lab.link import below

HOST = "127.0.0.1"
PORT = 2718
PORTS_TO_TRY = 50
SESSION_S = 10         # how long a page that was closed may come back to what it had
PATIENCE_S = 1         # how long pages that are open may hold up the end


def serve(port: int = PORT, *, open_browser: bool = True, link: str | None = None) -> None:
    """Show the lab at http://127.0.0.1:PORT/TOKEN/ and the lessons below it, until interrupted.

    With a ``link`` the address is that of a page with the settings that the link holds.
    """
    page = "" if link is None else below(link)
    needs_marimo()
    import uvicorn

    listening = free_socket(port)
    taken = listening.getsockname()[1]
    if taken != port:
        print(f"port {port} is taken; using {taken}", file=sys.stderr)
    listening.listen()         # from now on a browser waits until the pages are ready, however fast it is
    token = secrets.token_urlsafe(16)      # in the address, and not to be guessed
    address = f"http://{HOST}:{taken}/{token}/{page}"
    print(f"netsim lab: {address}  (stop with Ctrl+C)", flush=True)
    if open_browser:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    with suppress(KeyboardInterrupt), no_configuration():      # also while the pages are put together, for seconds
        # between two programs of one machine, compression only takes time
        uvicorn.Server(uvicorn.Config(
            pages(token, taken), log_level="error", ws_per_message_deflate=False, timeout_graceful_shutdown=PATIENCE_S,
        )).run(sockets=[listening])


def no_configuration() -> AbstractContextManager[None]:
    """Keep marimo from what the current folder and those above it hold: pyproject.toml, .marimo.toml, .env.

    They name code to import (``pythonpath``) and files to show (``custom_css``). marimo looks for them in the current
    folder and above, when it is imported and whenever a page is opened; above ``/`` there is nothing.
    """
    return chdir("/")


def needs_marimo() -> None:
    """Say what to install, where marimo is missing."""
    if find_spec("marimo") is None:
        raise InputError("needs", "netsim lab", "no marimo", hint="pip install 'netsim[lab]'")


def free_socket(port: int) -> socket.socket:
    """A socket bound to this port of the loopback interface, or to the next that is free."""
    for candidate in range(port, min(port + PORTS_TO_TRY, 65536)):
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, candidate))
        except OSError:
            listening.close()
            continue
        return listening
    raise InputError("busy", "--port", f"{port} and the {PORTS_TO_TRY - 1} ports after it", hint="Give another port")


def pages(token: str, port: int) -> Guard:
    """The lab at /TOKEN/ and each lesson at /TOKEN/lesson-N/, for those who have the address."""
    import marimo

    script = files("netsim.lab").joinpath("page.js").read_text(encoding="utf-8")
    site = marimo.create_asgi_app(quiet=True, session_ttl=SESSION_S, html_head=f"<script>{script}</script>")
    for number, lesson in enumerate(lessons(), start=1):
        site = site.with_app(path=f"/{token}/lesson-{number}", root=str(lesson))
    site = site.with_app(path=f"/{token}", root=str(folder() / "lab.py"))
    return Guard(site.build(), token, port)

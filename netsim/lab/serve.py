"""The lab's own small web server, for this machine only."""

from __future__ import annotations

import builtins
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import AbstractContextManager, chdir, contextmanager, suppress
from importlib.resources import files
from importlib.util import find_spec
from inspect import currentframe
from typing import Any

from netsim.base.errors import InputError
from netsim.lab.guard import Guard
from netsim.lab.lesson import folder, lessons
from netsim.lab.link import below

HOST = "127.0.0.1"
PORT = 2718
PORTS_TO_TRY = 50
SESSION_S = 10         # time for which the session of a closed page is kept
PATIENCE_S = 1         # time for which open pages may delay the shutdown


def serve(port: int = PORT, *, open_browser: bool = True, link: str | None = None) -> None:
    """Serve the lab at http://127.0.0.1:PORT/TOKEN/ and the lessons below it, until interrupted.

    ``link`` names a page and its settings: the printed address opens that page.
    """
    page = "" if link is None else below(link)
    needs_marimo()
    import uvicorn

    listening = free_socket(port)
    taken = listening.getsockname()[1]
    if taken != port:
        print(f"port {port} is taken; using {taken}", file=sys.stderr)
    listening.listen()         # a browser that connects early waits until the pages are ready
    token = secrets.token_urlsafe(16)      # part of the address, cannot be guessed
    address = f"http://{HOST}:{taken}/{token}/{page}"
    print(f"netsim lab: {address}  (stop with Ctrl+C)", flush=True)
    if open_browser:
        threading.Timer(0.5, webbrowser.open, [address]).start()
    with suppress(KeyboardInterrupt), no_configuration(), one_parse_at_a_time():
        # building the pages takes seconds; compression between two programs of one machine only costs time
        uvicorn.Server(uvicorn.Config(
            pages(token, taken), log_level="error", ws_per_message_deflate=False, timeout_graceful_shutdown=PATIENCE_S,
        )).run(sockets=[listening])


@contextmanager
def one_parse_at_a_time() -> Iterator[None]:
    """Hold a lock during every call of ``compile``, and so of ``ast.parse``, in all threads.

    CPython before 3.13 counts the depth of a syntax tree per interpreter: two threads that parse at the same time can
    raise "SystemError: AST constructor recursion depth mismatch". marimo parses pages in the request thread and cells
    in session threads, so a page could be answered with HTTP 500. The lock is reentrant, since a collection of garbage
    during ``compile`` may run code that parses too.
    """
    unlocked, lock = builtins.compile, threading.RLock()

    def locked(source: Any, filename: Any, mode: str, flags: int = 0, dont_inherit: bool = False, *more: Any,
               **options: Any) -> Any:
        frame = currentframe()
        if not dont_inherit and frame and frame.f_back:      # the future statement of the caller, not of this module
            flags |= frame.f_back.f_code.co_flags & annotations.compiler_flag
        with lock:
            return unlocked(source, filename, mode, flags, True, *more, **options)

    builtins.compile = locked
    try:
        yield
    finally:
        builtins.compile = unlocked


def no_configuration() -> AbstractContextManager[None]:
    """Change to ``/``, so that marimo reads no pyproject.toml, .marimo.toml or .env of the user's folders.

    These files name code to import (``pythonpath``) and files to show (``custom_css``). marimo searches the current
    folder and its parents, when it is imported and whenever a page is opened.
    """
    return chdir("/")


def needs_marimo() -> None:
    """Raise InputError with the command to install, if marimo is missing."""
    if find_spec("marimo") is None:
        raise InputError("needs", "netsim lab", "no marimo", hint="pip install 'netsim[lab]'")


def free_socket(port: int) -> socket.socket:
    """Return a socket bound to this port of the loopback interface, or to the next free port."""
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
    """Return the web application: the lab at /TOKEN/, each lesson at /TOKEN/lesson-N/, all other requests refused."""
    import marimo

    script = files("netsim.lab").joinpath("page.js").read_text(encoding="utf-8")
    site = marimo.create_asgi_app(quiet=True, session_ttl=SESSION_S, html_head=f"<script>{script}</script>")
    for number, lesson in enumerate(lessons(), start=1):
        site = site.with_app(path=f"/{token}/lesson-{number}", root=str(lesson))
    site = site.with_app(path=f"/{token}", root=str(folder() / "lab.py"))
    return Guard(site.build(), token, port)

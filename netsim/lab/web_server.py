"""The lab's own small web server: for this machine only, or, in class mode, for its network."""

from __future__ import annotations

import builtins
import ipaddress
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, chdir, contextmanager, suppress
from importlib.resources import files
from importlib.util import find_spec
from inspect import currentframe
from typing import Any

from netsim.base.errors import InputError
from netsim.base.platform_info import usual_collections
from netsim.lab.auth import AccessControl
from netsim.lab.lesson import folder, lessons
from netsim.lab.url_state import below

HOST = "127.0.0.1"
ANY = "0.0.0.0"        # all interfaces
SEATS = 40             # pages that may be open at a time in class mode
PORT = 2718
PORTS_TO_TRY = 50
SESSION_S = 10         # time for which the session of a closed page is kept
PATIENCE_S = 1         # time for which open pages may delay the shutdown
CLASS_MODE = (
    "warning: everyone who knows this address and can reach {}, port {}, over the network can open the lab and use "
    "this machine's CPU, {} pages at a time. The connection is not encrypted. Use it in a network that you trust; "
    "without --host only this machine has access.")


def serve(
    port: int = PORT, *, open_browser: bool = True, link: str | None = None, host: str | None = None,
    seats: int = SEATS,
) -> None:
    """Serve the lab at http://127.0.0.1:PORT/TOKEN/ and the lessons below it, until interrupted.

    ``link`` names a page and its settings: the printed address opens that page. ``host`` is an address of this machine
    at which other machines may open the lab too (class mode), at most ``seats`` pages at a time.
    """
    page = "" if link is None else below(link)
    needs_marimo()
    import uvicorn

    usual_collections()

    names = [] if host is None else own_addresses(host)
    listening = free_socket(port, host or HOST)
    taken = listening.getsockname()[1]
    if taken != port:
        print(f"port {port} is taken; using {taken}", file=sys.stderr)
    listening.listen()         # a browser that connects early waits until the pages are ready
    token = secrets.token_urlsafe(16)      # part of the address, cannot be guessed
    addresses = [f"http://{name}:{taken}/{token}/{page}" for name in names or [HOST]]
    for each in addresses:
        print(f"netsim lab: {each}  (stop with Ctrl+C)", flush=True)
    if host is not None:
        print(CLASS_MODE.format(" or ".join(names), taken, seats), file=sys.stderr, flush=True)
    if open_browser:
        threading.Timer(0.5, webbrowser.open, addresses[:1]).start()
    with suppress(KeyboardInterrupt), no_configuration(), serialize_parsing():
        # building the pages takes seconds; compression between two programs of one machine only costs time
        site = pages(token, taken, names, None if host is None else seats)
        uvicorn.Server(uvicorn.Config(
            site, log_level="error", ws_per_message_deflate=False, timeout_graceful_shutdown=PATIENCE_S,
        )).run(sockets=[listening])


@contextmanager
def serialize_parsing() -> Iterator[None]:
    """Hold a lock during every call of ``compile``, and so of ``ast.parse``, in all threads.

    CPython before 3.13 counts the depth of a syntax tree per interpreter: threads that parse at the same time can raise
    "SystemError: AST constructor recursion depth mismatch", as marimo does for pages and cells. The lock is reentrant,
    since a collection of garbage during ``compile`` may run code that parses too.
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
    if find_spec("marimo") is None:
        raise InputError("needs", "netsim lab", "no marimo", hint="pip install 'netsim[lab]'")


def own_addresses(host: str) -> list[str]:
    """Return the addresses by which other machines reach this one: ``host``, or all for "0.0.0.0".

    Raise InputError if it is no address of this machine.
    """
    try:
        ipaddress.IPv4Address(host)
        with socket.socket() as trial:
            trial.bind((host, 0))
    except (ValueError, OSError):
        raise InputError("out-of-range", "--host", f'"{host[:60]}"', "an IPv4 address of this machine, or 0.0.0.0 for "
                         "all of them") from None
    if host != ANY:
        return [host]
    found = []
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outward:
        outward.connect(("192.0.2.1", 9))       # a reserved address: chooses the interface, and sends nothing
        found.append(outward.getsockname()[0])
    with suppress(OSError):
        found += socket.gethostbyname_ex(socket.gethostname())[2]
    return [name for name in dict.fromkeys(found) if name != ANY] or [HOST]


def free_socket(port: int, host: str = HOST) -> socket.socket:
    """Return a socket bound to this port of an interface, by default of the loopback, or to the next free port."""
    for candidate in range(port, min(port + PORTS_TO_TRY, 65536)):
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, candidate))
        except OSError:
            listening.close()
            continue
        return listening
    raise InputError("busy", "--port", f"{port} and the {PORTS_TO_TRY - 1} ports after it", hint="Give another port")


def pages(token: str, port: int, hosts: Sequence[str] = (), seats: int | None = None) -> AccessControl:
    """Return the web application: the lab at /TOKEN/, each lesson at /TOKEN/lesson-N/, all other requests refused.

    ``hosts`` are further addresses of the server, ``seats`` is the largest number of open pages.
    """
    import marimo

    script = files("netsim.lab").joinpath("page.js").read_text(encoding="utf-8")
    site = marimo.create_asgi_app(quiet=True, session_ttl=SESSION_S, html_head=f"<script>{script}</script>")
    for number, lesson in enumerate(lessons(), start=1):
        site = site.with_app(path=f"/{token}/lesson-{number}", root=str(lesson))
    site = site.with_app(path=f"/{token}", root=str(folder() / "lab.py"))
    return AccessControl(site.build(), token, port, hosts, seats)

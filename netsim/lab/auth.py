"""Access control of the lab: only requests with the token, from its own pages, to the paths that they need."""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from netsim.base.errors import readable

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

# Paths that the pages request, below their own address. None names a file of this machine by its path.
NEEDED = re.compile(r"""
      (lesson-\d+/?)?                                       # a page
    ( | ws | health
      | assets/[\w.@-]+ | [\w-]+\.(png|ico|json|css|js)     # marimo's own
      | @file/[\w.-]+                                       # what a page made: a picture, a text to take along
      | api/kernel/(instantiate|set_ui_element_value|set_model_value|function_call)
      | api/(usage|version|status) )""", re.VERBOSE)
PAGE = re.compile(r"(lesson-\d+/?)?")
CLOSE_CODES = {403: 1008, 503: 1013}      # of a websocket, by HTTP status
MOST_BYTES = 1_000_000         # of a request; the pages send a few hundred
HEADERS = ((b"referrer-policy", b"same-origin"), (b"x-content-type-options", b"nosniff"),
           (b"x-frame-options", b"SAMEORIGIN"), (b"cross-origin-resource-policy", b"same-origin"))


class AccessControl:
    """Refuses all requests that do not come from the lab's own pages.

    A page elsewhere in the same browser can send requests here, also by a name of its own that leads to this machine,
    and so can every program of this machine. The first is known by its Origin and Host, and neither has the token.
    """

    def __init__(
        self, pages: Application, token: str, port: int, hosts: Iterable[str] = (), seats: int | None = None,
    ) -> None:
        self._pages = pages
        self._token = token
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", *hosts)}
        self._seats, self._open = seats, 0         # pages that may be open, and are open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind not in ("http", "websocket"):      # the server's own start and end
            await self._pages(scope, receive, send)
        elif not self.allows(scope) or self._is_large(scope):
            await _refuse(scope, receive, send, 403, "Open the lab by the address that it printed.\n")
        elif self._is_full(scope):
            full = f"The lab is full: {self._seats} pages are open. Try again in a minute.\n"
            await _refuse(scope, receive, send, 503, full)
        else:
            self._open += kind == "websocket"
            try:
                await self._pages(scope, receive, _with_headers(send) if kind == "http" else send)
            except Exception as error:      # marimo answers a request without a session, and raises too
                print(f"lab: request refused: {readable(f'{type(error).__name__}: {error}')}", file=sys.stderr)
            finally:
                self._open -= kind == "websocket"

    def _is_full(self, scope: Scope) -> bool:
        """Return True for the request of a page, or of a page's connection, beyond the seats of a class."""
        _, _, rest = str(scope["path"]).removeprefix("/").partition("/")
        asks = scope["type"] == "websocket" or PAGE.fullmatch(rest) is not None
        return self._seats is not None and asks and self._open >= self._seats

    def _is_large(self, scope: Scope) -> bool:
        """Return True if a request announces more than the pages ever send."""
        lengths = [value for name, value in scope["headers"] if name.lower() == b"content-length"]
        return any(not value.isdigit() or int(value) > MOST_BYTES for value in lengths)

    def allows(self, scope: Scope) -> bool:
        """Return True if a request has the token, comes from a page of the lab, and has an allowed path."""
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1").lower())
        host, origin = headers.get("host", []), headers.get("origin", [])
        if len(host) != 1 or host[0] not in self._hosts:
            return False
        if scope["type"] == "websocket" and not origin:      # every browser sends it
            return False
        if origin and origin != [f"http://{host[0]}"]:
            return False
        token, _, rest = str(scope["path"]).removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            return False
        if "file" in parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True):
            return False                                     # marimo would open it
        return NEEDED.fullmatch(rest) is not None


async def _refuse(scope: Scope, receive: Receive, send: Send, status: int, text: str) -> None:
    """Answer a request with a status, or close a connection with the code that corresponds to it."""
    if scope["type"] == "websocket":
        await receive()                            # the connection request
        await send({"type": "websocket.close", "code": CLOSE_CODES[status]})
        return
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": text.encode()})


def _with_headers(send: Send) -> Send:
    async def send_with(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name for name, _ in HEADERS}
            kept = [pair for pair in message.get("headers", ()) if pair[0].lower() not in own]
            message = {**message, "headers": [*kept, *HEADERS]}
        await send(message)

    return send_with

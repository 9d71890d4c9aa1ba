"""The lab answers those who have its address, from a page of its own, and ends when it is told to."""

from __future__ import annotations

import asyncio
import http.client
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium import Browser, needs_chromium
from levels import extended
from refused import refused

pytest.importorskip("marimo", reason="no marimo here: the lab is not tried")

from netsim.lab import web_server
from netsim.lab.auth import AccessControl

pytestmark = pytest.mark.slow
TOKEN = "just-for-this-test"
PAGES = ("", "lesson-1/")
UPGRADE = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
           "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}


class Lab:
    """The lab in a thread, and how to talk to it."""

    def __init__(self) -> None:
        import uvicorn

        listening = web_server.free_socket(22000)
        self.port = listening.getsockname()[1]
        self.pages = web_server.pages(TOKEN, self.port)
        self.server = uvicorn.Server(uvicorn.Config(self.pages, log_level="error", timeout_graceful_shutdown=1))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listening]}, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def status(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str | None) -> int:
        """The status of an answer; None for a header leaves it out."""
        given = {"Host": f"127.0.0.1:{self.port}", **{name.replace("_", "-"): value for name, value in headers.items()}}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in given.items():
            if value is not None:
                connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        status = connection.getresponse().status
        connection.close()
        return status

    def shakes_hands(self, path: str, **headers: str | None) -> int:
        """The answer to a wish for a websocket: 101 where it is granted."""
        own = {"Origin": f"http://127.0.0.1:{self.port}", **headers}
        return self.status(path, **UPGRADE, **own)

    @property
    def sessions(self) -> int:
        """How many pages have a session."""
        managers = [route.app.state.session_manager for route in self.pages._pages.routes if hasattr(route, "app")
                    and hasattr(route.app, "state")]
        return sum(len(manager.sessions) for manager in managers)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with pytest.MonkeyPatch.context() as patch, web_server.serialize_parsing():
        patch.setattr(web_server, "SESSION_S", 1)
        patch.setitem(sys.modules, "__main__", sys.modules["__main__"])      # marimo puts a page's own there
        opened = Lab()
        yield opened
        opened.server.should_exit = True
        opened.thread.join(10)


def test_a_page_is_shown_to_those_who_have_its_address(lab: Lab) -> None:
    for page in PAGES:
        assert lab.status(f"/{TOKEN}/{page}") == 200
        assert lab.status(f"/{TOKEN}/{page}", Host=f"localhost:{lab.port}") == 200
        assert lab.status(f"/{TOKEN}/{page}health", Origin=f"http://127.0.0.1:{lab.port}") == 200
        assert lab.shakes_hands(f"/{TOKEN}/{page}ws?session_id=s-1") == 101


@pytest.mark.parametrize("path", [
    "/", "/lesson-1/", "/health", "/ws?session_id=s-1", "//", "/x/", f"/{TOKEN}x/", f"/{TOKEN[:-1]}/",
    f"/x/../{TOKEN}/", f"/?access_token={TOKEN}", f"//{TOKEN}/", "/assets/index.css",
])
def test_nobody_without_the_token(lab: Lab, path: str) -> None:
    assert lab.status(path) == 403
    assert lab.shakes_hands(path) == 403


@pytest.mark.parametrize("host", [
    "evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}",
    "127.0.0.1:{port}@evil.example", "", None, "0.0.0.0:{port}", "[::1]:{port}",
])
def test_under_no_other_name(lab: Lab, host: str | None) -> None:
    """A site that got its name to point here (DNS rebinding) knows no token, and would be refused with one."""
    named = None if host is None else host.format(port=lab.port)
    for page in PAGES:
        assert lab.status(f"/{TOKEN}/{page}", Host=named) in (400, 403)
        assert lab.shakes_hands(f"/{TOKEN}/{page}ws?session_id=s-1", Host=named) in (400, 403)


@pytest.mark.parametrize("origin", [
    "http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1", "http://127.0.0.1:1",
    "http://127.0.0.1:{port}.evil.example", "http://localhost:{port}", "file://",
])
def test_from_no_other_page(lab: Lab, origin: str) -> None:
    """Not from localhost either where the page is at 127.0.0.1: to a browser they are two."""
    for page in PAGES:
        named = origin.format(port=lab.port)
        assert lab.status(f"/{TOKEN}/{page}", Origin=named) == 403
        assert lab.status(f"/{TOKEN}/{page}api/kernel/instantiate", "POST", Origin=named) == 403
        assert lab.shakes_hands(f"/{TOKEN}/{page}ws?session_id=s-1", Origin=named) == 403
        assert lab.shakes_hands(f"/{TOKEN}/{page}ws?session_id=s-1", Origin=None) == 403


@pytest.mark.parametrize("path", [
    "?file=/etc/passwd", "?file=", "?x=1&file=%2Fetc%2Fpasswd", "../../../etc/passwd", "..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd", "public/../../etc/passwd", "public/lab.py", "api/files/list_files",
    "api/files/file_details", "api/kernel/run", "api/kernel/scratchpad/run", "api/kernel/read_code", "api/export/html",
    "api/home/workspace_files", "api/home/recent_files", "api/environment", "terminal/ws", "lsp/pylsp",
    "openapi.json/x", "assets/../../x", "assets//etc/passwd", "@file/../../etc/passwd", "@file/10-/etc/passwd",
    "og/thumbnail?file=x",
])
@pytest.mark.parametrize("page", PAGES)
def test_no_file_of_this_machine_is_read_by_its_path(lab: Lab, page: str, path: str) -> None:
    for method in ("GET", "POST"):
        assert lab.status(f"/{TOKEN}/{page}{path}", method, Origin=f"http://127.0.0.1:{lab.port}") in (403, 404)
    assert lab.shakes_hands(f"/{TOKEN}/{page}{path}") in (403, 404)


@pytest.mark.parametrize("body", [b"", b"{}", b"[1", b"[]", b"\xff", b'{"objectIds": [], "values": []}'])
@pytest.mark.parametrize("session", [None, "s-unknown"])
@pytest.mark.parametrize("call", ["instantiate", "set_ui_element_value", "set_model_value", "function_call"])
def test_a_call_without_session_or_sense_is_refused_without_a_traceback(
        lab: Lab, capfd: pytest.CaptureFixture[str], call: str, session: str | None, body: bytes) -> None:
    for page in PAGES:
        path = f"/{TOKEN}/{page}api/kernel/{call}"
        assert lab.status(path, "POST", body, Marimo_Session_Id=session, Content_Type="application/json") >= 400
    assert "Traceback" not in capfd.readouterr().err


def test_the_session_of_a_page_that_was_closed_is_freed(lab: Lab) -> None:
    from websockets.sync.client import connect

    def settled(count: int) -> bool:
        until = time.monotonic() + 60      # a busy machine takes its time
        while lab.sessions != count and time.monotonic() < until:
            time.sleep(0.05)
        return lab.sessions == count

    assert settled(0)
    address, origin = f"ws://127.0.0.1:{lab.port}/{TOKEN}/ws", f"http://127.0.0.1:{lab.port}"
    with connect(f"{address}?session_id=s-10", origin=origin), connect(f"{address}?session_id=s-11", origin=origin):
        assert settled(2)
    assert settled(0)


@needs_chromium
@pytest.mark.parametrize("kind", [signal.SIGINT, *extended([signal.SIGTERM])])
def test_it_ends_with_a_page_open_and_leaves_nothing(kind: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "netsim", "lab", "--no-browser", "--port", "22500"]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(tmp_path)}
                          ) as server, Browser() as browser:
        found: Any = re.search(r"http://\S+", server.stdout.readline())
        page = browser.open(f"{found[0]}lesson-11/")
        page.wait_for("deep('svg[role=img]').length")
        assert list(tmp_path.glob("netsim-*"))                 # the runs that the page is about
        server.send_signal(kind)
        server.wait(20)
        assert server.returncode in (0, 128 + kind, -kind)
        assert "Traceback" not in server.stderr.read()
        assert not list(tmp_path.glob("netsim-*"))


# Class mode.

def asked(host: str, path: str = f"/{TOKEN}/", kind: str = "http", **headers: str) -> dict[str, Any]:
    named = [(b"host", host.encode()), *((name.replace("_", "-").encode(), value.encode())
                                         for name, value in headers.items())]
    return {"type": kind, "path": path, "headers": named, "query_string": b""}


def statuses(guard: AccessControl, *scopes: dict[str, Any]) -> list[Any]:
    """What each of these requests is answered; they all stay open until the last has begun."""
    async def play() -> list[Any]:
        hold, sent = asyncio.Event(), [[] for _ in scopes]

        async def receive() -> dict[str, Any]:
            await hold.wait()
            return {"type": "websocket.connect"}

        async def one(scope: dict[str, Any], answers: list[Any]) -> None:
            async def send(message: dict[str, Any]) -> None:
                answers.append(message.get("status") or message.get("code") or message["type"])
            await guard(scope, receive, send)

        tasks = []
        for scope, answers in zip(scopes, sent, strict=True):
            tasks.append(asyncio.create_task(one(scope, answers)))
            await asyncio.sleep(0)
        hold.set()
        await asyncio.gather(*tasks)
        return [answers[0] for answers in sent]

    return asyncio.run(play())


async def page(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})


def test_a_class_opens_the_lab_by_its_addresses_only() -> None:
    guard = AccessControl(page, TOKEN, 80, ["10.1.2.3"], 2)
    assert statuses(guard, asked("10.1.2.3:80"), asked("127.0.0.1:80"), asked("10.1.2.4:80"),
                    asked("10.1.2.3:80", "/other/"), asked("10.1.2.3:80", content_length="99999999"),
                    asked("10.1.2.3:80", content_length="much")) == [200, 200, 403, 403, 403, 403]


def test_a_full_lab_says_so() -> None:
    guard, host = AccessControl(page, TOKEN, 80, ["10.1.2.3"], 2), "10.1.2.3:80"
    live = asked(host, f"/{TOKEN}/ws", "websocket", origin=f"http://{host}")
    found = statuses(guard, live, live, live, asked(host), asked(host, f"/{TOKEN}/lesson-3/"),
                     asked(host, f"/{TOKEN}/assets/a.js"))
    assert found == [200, 200, 1013, 503, 503, 200]
    assert statuses(guard, live, asked(host)) == [200, 200]          # the two have left


@pytest.mark.parametrize("host", ["192.0.2.1", "somewhere", "", "256.1.1.1", "::1"])
def test_a_host_that_is_not_this_machine(host: str) -> None:
    with refused("out-of-range", "--host"):
        web_server.own_addresses(host)
    assert web_server.own_addresses("127.0.0.1") == ["127.0.0.1"]
    assert "0.0.0.0" not in web_server.own_addresses("0.0.0.0")

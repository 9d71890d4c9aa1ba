"""Headless Chromium for the tests: opens pages with the network off, tells what they asked for and complained about.

It talks to Chromium's DevTools over a pair of pipes: no port, no driver, nothing to install but Chromium itself.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: the pages are not tried in a browser")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",      # the network is off, but for this machine
)
PATIENCE_S = 60.0
# What tests may call in a page: like querySelectorAll, but into shadow roots too.
DEEP = """window.deep = (what, root = document) => [...root.querySelectorAll(what)].concat(
    ...[...root.querySelectorAll('*')].filter((e) => e.shadowRoot).map((e) => deep(what, e.shadowRoot)))"""


class Browser:
    """One Chromium with a profile of its own; ``with Browser() as browser: page = browser.open(url)``."""

    def __enter__(self) -> Browser:
        assert CHROMIUM is not None
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        read_commands, self._commands = os.pipe()
        self._answers, write_answers = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4; a shell can put any others there
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{read_commands} 4>&{write_answers}', "bash", CHROMIUM, *FLAGS,
             f"--user-data-dir={self._profile.name}", "about:blank"],
            pass_fds=(read_commands, write_answers), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read_commands)
        os.close(write_answers)
        self._messages: queue.Queue[dict[str, Any]] = queue.Queue()
        self._next = 0
        self._pages: dict[str, Page] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.call("Browser.close")
            self._process.wait(10)
        except (OSError, TimeoutError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._commands)
        self._reader.join(10)
        os.close(self._answers)
        self._profile.cleanup()

    def open(
        self, url: str, width: int = 1280, height: int = 900, *, dark: bool = False, script: str = "",
    ) -> Page:
        """A new tab with this address; sizes are in CSS pixels, below 600 wide it counts as a phone.

        A ``script`` is run in it before its own, and in each of its frames.
        """
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = self._pages[session] = Page(self, session, target)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.screen(width, height, dark=dark)
        page.call("Emulation.setFocusEmulationEnabled", {"enabled": True})
        for source in filter(None, (DEEP, script)):
            page.call("Page.addScriptToEvaluateOnNewDocument", {"source": source})
        page.call("Page.navigate", {"url": url})
        page.wait_for("location.href !== 'about:blank' && document.readyState === 'complete'")
        return page

    def call(self, method: str, parameters: dict[str, Any] | None = None, session: str | None = None) -> dict[str, Any]:
        """Send a DevTools command and wait for its answer."""
        self._next += 1
        number = self._next
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters or {}}
        if session:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                answer = self._messages.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(f"Chromium did not answer {method}") from None
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])
            self._note(answer)

    def _note(self, message: dict[str, Any]) -> None:
        page = self._pages.get(message.get("sessionId", ""))
        if page and "method" in message:
            page.note(message["method"], message["params"])

    def _read(self) -> None:
        rest = b""
        while piece := os.read(self._answers, 1 << 16):
            *whole, rest = (rest + piece).split(b"\0")
            for text in whole:
                self._messages.put(json.loads(text))


class Page:
    """A tab: what it shows, what it asked for (``requests``), what it complained about (``errors``)."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self.browser = browser
        self.session = session
        self.target = target
        self.requests: list[str] = []
        self.errors: list[str] = []

    def call(self, method: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a DevTools command to this tab."""
        return self.browser.call(method, parameters, self.session)

    def note(self, method: str, event: dict[str, Any]) -> None:
        """Keep what a test may want to see."""
        if method == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "assert"):
            self.errors.append(" ".join(str(arg.get("value", arg.get("description"))) for arg in event["args"]))
        elif method == "Log.entryAdded" and event["entry"]["level"] == "error":
            self.errors.append(f"{event['entry']['text']} {event['entry'].get('url', '')}")

    def screen(
        self, width: int = 1280, height: int = 900, *, dark: bool = False, scale: float = 1, calm: bool = False,
    ) -> None:
        """Show the tab on another screen: ``scale`` is pixels a CSS pixel, ``calm`` asks for less motion."""
        self.call("Emulation.setDeviceMetricsOverride",
                  {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600})
        self.call("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if calm else "no-preference"}]})

    @property
    def requests_elsewhere(self) -> list[str]:
        """Requests that would leave this machine."""
        here = ("file:", "data:", "blob:", "about:", "http://127.0.0.1:", "ws://127.0.0.1:")
        return [url for url in self.requests if not url.startswith(here)]

    def evaluate(self, code: str) -> Any:
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", {"expression": code, "returnByValue": True, "awaitPromise": True})
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "JavaScript failed"))
        return answer["result"].get("value")

    def wait_for(self, code: str, seconds: float = PATIENCE_S) -> Any:
        """Wait until a JavaScript expression is true, and return its value."""
        until = time.monotonic() + seconds
        while not (value := self.evaluate(code)):
            if time.monotonic() > until:
                raise TimeoutError(f"waited {seconds:g} s for: {code}\nerrors: {self.errors}")
            time.sleep(0.03)
        return value

    def click(self, x: float, y: float) -> None:
        """Press and release the left mouse button at a place in the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent",
                      {"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1})

    def press(self, key: str) -> None:
        """Press and release a key, such as ArrowRight, in what has the focus."""
        codes = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "PageUp": 33, "PageDown": 34,
                 "Tab": 9, "Enter": 13, "Escape": 27, "Home": 36, "End": 35, "+": 107, "-": 109, "0": 48}
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", {
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": codes[key],
                **(text if kind == "keyDown" else {})})

    def wheel(self, x: float, y: float, by: float) -> None:
        """Turn the mouse wheel at a place in the window; a negative way is up."""
        self.call("Input.dispatchMouseEvent", {"type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": by})

    def drag(self, x: float, y: float, by: float) -> None:
        """Press the left mouse button, move it so far to the right, and release it."""
        for kind, at in (("mousePressed", x), ("mouseMoved", x + by / 2), ("mouseMoved", x + by),
                         ("mouseReleased", x + by)):
            self.call("Input.dispatchMouseEvent",
                      {"type": kind, "x": at, "y": y, "button": "left", "buttons": 1, "clickCount": 1})

    def middle(self, element: str) -> tuple[float, float]:
        """Where the middle of an element, given as JavaScript, is in the window, once it is scrolled there."""
        x, y = self.evaluate(f"""(() => {{ const element = {element}; element.scrollIntoView({{ block: 'center' }});
            const box = element.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2]; }})()""")
        return x, y

    def screenshot(self, path: Path | str, *, whole: bool = False) -> None:
        """Save what the window shows, or the whole page, as PNG."""
        shot = self.call("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole})
        Path(path).write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        """Close the tab."""
        self.browser.call("Target.closeTarget", {"targetId": self.target})

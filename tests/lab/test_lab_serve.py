"""The lab's server: this machine only, a free port, and a clear word where something is missing."""

from __future__ import annotations

import ast
import builtins
import gc
import socket
import sys
import threading
import time
from contextlib import closing

import pytest
from refused import refused

from netsim.cli import main
from netsim.lab import web_server


def test_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(web_server, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["netsim", "lab"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith("error: netsim lab: needs")
    assert "pip install 'netsim[lab]'" in err


def test_a_port_that_is_taken_means_the_next_one():
    with closing(web_server.free_socket(20000)) as first:
        taken = first.getsockname()[1]
        first.listen()
        with closing(web_server.free_socket(taken)) as second:
            assert second.getsockname() == (web_server.HOST, taken + 1) or second.getsockname()[1] > taken


def test_no_port_at_all(monkeypatch):
    def refuse(self, address):
        raise OSError("taken")

    monkeypatch.setattr(web_server, "socket", type("Stub", (), {
        "socket": type("Taken", (socket.socket,), {"bind": refuse}), "SOL_SOCKET": socket.SOL_SOCKET,
        "SO_REUSEADDR": socket.SO_REUSEADDR}))
    with refused("busy", "--port"):
        web_server.free_socket(65530)


def parse_in_threads():
    """Parse in four threads and return the errors; a garbage collection during a parse lets another thread run."""
    source = "x = " + "+".join(f"f({i}, [a, (b, c)])" for i in range(20))
    errors = []

    def work():
        for _ in range(5):
            try:
                ast.parse(source)
            except SystemError as error:
                errors.append(error)

    def let_others_run(phase, info):
        time.sleep(1e-4)

    usual = gc.get_threshold()
    gc.callbacks.append(let_others_run)
    gc.set_threshold(50)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.set_threshold(*usual)
        gc.callbacks.remove(let_others_run)
    return errors


def test_threads_parse_one_at_a_time():
    """CPython before 3.13 raises SystemError where two threads parse at once: the lab answered with HTTP 500."""
    plain = builtins.compile
    with web_server.serialize_parsing():
        assert parse_in_threads() == []
    assert builtins.compile is plain


def test_compile_keeps_to_the_future_statements_of_its_caller():
    caller = "def make(): return compile('def f(x: y): pass', 'made', 'exec')"
    for future in ("", "from __future__ import annotations\n"):
        space = {}
        exec(compile(future + caller, "caller", "exec", dont_inherit=True), space)
        plain = space["make"]().co_code
        with web_server.serialize_parsing():
            assert space["make"]().co_code == plain

"""The lab's server: this machine only, a free port, and a clear word where something is missing."""

from __future__ import annotations

import socket
import sys
from contextlib import closing

import pytest
from refused import refused

from netsim.cli import main
from netsim.lab import serve


def test_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(serve, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["netsim", "lab"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith("error: netsim lab: needs")
    assert "pip install 'netsim[lab]'" in err


def test_a_port_that_is_taken_means_the_next_one():
    with closing(serve.free_socket(20000)) as first:
        taken = first.getsockname()[1]
        first.listen()
        with closing(serve.free_socket(taken)) as second:
            assert second.getsockname() == (serve.HOST, taken + 1) or second.getsockname()[1] > taken


def test_no_port_at_all(monkeypatch):
    def refuse(self, address):
        raise OSError("taken")

    monkeypatch.setattr(serve, "socket", type("Stub", (), {
        "socket": type("Taken", (socket.socket,), {"bind": refuse}), "SOL_SOCKET": socket.SOL_SOCKET,
        "SO_REUSEADDR": socket.SO_REUSEADDR}))
    with refused("busy", "--port"):
        serve.free_socket(65530)

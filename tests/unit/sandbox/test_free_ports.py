import socket
from pathlib import Path

import pytest

from sandbox import free_ports
from sandbox.errors import StartFailed


def test_no_connection_can_take_a_port_that_was_chosen() -> None:
    """Linux gives others to whoever doesn't choose, so nobody has it before the server starts."""
    first, _ = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert max(free_ports.PORTS) < first


def test_a_port_that_is_in_use_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """And where all are, that is an error."""
    with socket.socket() as taken:
        taken.bind((free_ports.LOOPBACK, 0))
        port = taken.getsockname()[1]
        monkeypatch.setattr(free_ports, "PORTS", range(port, port + 1))
        monkeypatch.setattr(free_ports, "ATTEMPTS_MAX", 1)
        with pytest.raises(StartFailed, match=f"fewer than 1 ports from {port}"):
            free_ports.choose(1)

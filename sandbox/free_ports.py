"""Loopback ports for servers that are started a moment later."""

import random
import socket
from collections.abc import Sequence
from contextlib import ExitStack

from sandbox.errors import StartFailed

LOOPBACK = "127.0.0.1"

PORTS = range(10_000, 30_000)
"""Below the ports that Linux gives to connections and to servers without a choice (32768 to 60999).
Otherwise any process could get the port before the server does."""

ATTEMPTS_MAX = 1000


def choose(count: int) -> Sequence[int]:
    """Return so many different ports that are free now, chosen at random.

    Raises StartFailed if there are too few.
    """
    found: list[int] = []
    with ExitStack() as stack:
        for port in random.SystemRandom().sample(PORTS, ATTEMPTS_MAX):
            one = stack.enter_context(socket.socket())
            try:
                one.bind((LOOPBACK, port))
            except OSError:
                continue
            found.append(port)
            if len(found) == count:
                return found
    raise StartFailed(f"fewer than {count} ports from {PORTS[0]} to {PORTS[-1]} are free")

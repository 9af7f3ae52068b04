"""The network between processes and the API server: bytes that come late, wait, or never arrive."""

import asyncio
import random
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from tests.simulation.kernel.core import Kernel

if TYPE_CHECKING:
    from tests.simulation.kernel.processes import Process

LATENCY_SECONDS = (0.0004, 0.004)


class ServerSide(Protocol):
    """The server's end of a connection."""

    def received(self, data: bytes) -> None:
        """Bytes have come."""

    def lost(self) -> None:
        """The connection is gone."""


Accept = Callable[[Callable[[bytes], None], Callable[[], None], str], ServerSide]
"""Opens the server's end, given how to write, how to close, and the client's name."""


class Link:
    """What lies between one process and the server. `slow` adds seconds to each way."""

    def __init__(self) -> None:
        self.up = True
        """Whether bytes reach the server."""
        self.down = True
        """Whether bytes reach the process."""
        self.slow = 0.0


class Network:
    """All connections to the one server."""

    def __init__(self, kernel: Kernel, accept: Accept, chance: random.Random) -> None:
        self.kernel = kernel
        self.serving = True
        self.bytes_sent = 0
        """To the server, by all processes."""
        self.connects = 0
        """How often a process has asked for a connection, even if the server was down."""
        self.on_send: Callable[[Process, bytes], None] | None = None
        """Called in the process that sends, with what it sends."""
        self._accept = accept
        self._chance = chance
        self._links: dict[str, Link] = {}
        self._connections: dict[int, Connection] = {}

    def link(self, name: str) -> Link:
        """The link of a host."""
        return self._links.setdefault(name, Link())

    def latency(self, link: Link) -> float:
        """Seconds for one way."""
        return self._chance.uniform(*LATENCY_SECONDS) + link.slow

    async def connect(self, loop: Any, process: "Process") -> "Transport":
        """Open a connection. Raises ConnectionRefusedError while the server is down."""
        link = self.link(process.host)
        self.connects += 1
        while True:
            await asyncio.sleep(self.latency(link))
            if link.up and link.down:
                break
            await asyncio.sleep(1.0)  # as SYN is sent again
        if not self.serving:
            raise ConnectionRefusedError(111, "Connection refused")
        connection = Connection(self, loop, process, link)
        close = connection.close_by_server
        connection.server = self._accept(connection.answer, close, process.name)
        self._connections[connection.number] = connection
        return connection.client

    def forget(self, connection: "Connection") -> None:
        """A connection has ended at both ends."""
        self._connections.pop(connection.number, None)

    def reset(self, name: str = "") -> None:
        """Break the connections of a host, or all."""
        for connection in list(self._connections.values()):
            if name in ("", connection.process.host):
                connection.reset()

    def release(self, name: str) -> None:
        """Deliver what waited for a partition to end."""
        for connection in list(self._connections.values()):
            if connection.process.host == name:
                connection.release()

    def silence(self, name: str) -> None:
        """From now on, nothing that the server sends on these watches of a host arrives."""
        for connection in self._connections.values():
            if connection.process.host == name and connection.watches:
                connection.silent = True

    def abandon(self, process: "Process") -> None:
        """A process has ended: what it had sent still arrives, and then the connection's end."""
        for connection in list(self._connections.values()):
            if connection.process is process:
                connection.hang_up()


class Connection:
    """One TCP connection: two streams of bytes, each in order."""

    def __init__(self, network: Network, loop: Any, process: "Process", link: Link) -> None:
        self.number = next(network.kernel.numbers)
        self.process = process
        self.server: ServerSide | None = None
        self.client = Transport(self, loop)
        self.watches = False
        """Whether a watch was asked for."""
        self.silent = False
        """Whether the way to the client is lost, and nobody tells."""
        self._network = network
        self._link = link
        self.give_up_seconds: float | None = None
        """How long the client's kernel keeps sending what isn't acknowledged."""
        self._held: list[tuple[bool, Callable[[], None]]] = []
        self._due = {True: 0.0, False: 0.0}

    def send(self, data: bytes) -> None:
        """Carry bytes to the server."""
        self._network.bytes_sent += len(data)
        self.watches = self.watches or b"watch=" in data.partition(b"\r\n")[0]
        if self._network.on_send is not None:
            self._network.on_send(self.process, data)
        self._carry(up=True, deliver=lambda: self._to_server(data))

    def hang_up(self) -> None:
        """The client has closed."""
        self._carry(up=True, deliver=self._lose_client)

    def answer(self, data: bytes) -> None:
        """Carry bytes to the client."""
        self._carry(up=False, deliver=lambda: self.client.received(data))

    def close_by_server(self) -> None:
        """The server has closed."""
        self._carry(up=False, deliver=lambda: self.client.lost(None))

    def reset(self) -> None:
        """Break at once, at both ends."""
        self._lose_client()
        self._network.kernel.after(
            0.0, lambda: self.client.lost(ConnectionResetError(104, "Connection reset by peer"))
        )

    def release(self) -> None:
        """Deliver what was held, as far as the link is whole."""
        held, self._held = self._held, []
        for up, deliver in held:
            self._carry(up=up, deliver=deliver)

    def _carry(self, *, up: bool, deliver: Callable[[], None]) -> None:
        kernel = self._network.kernel
        due = max(self._due[up], kernel.moment + self._network.latency(self._link))
        self._due[up] = due
        since = kernel.moment
        kernel.after(due - since, lambda: self._arrive(up, deliver, since))

    def _arrive(self, up: bool, deliver: Callable[[], None], since: float) -> None:
        whole = self._link.up if up else self._link.down and not self.silent
        if whole and not any(way == up for way, _ in self._held):
            deliver()
        else:
            self._held.append((up, deliver))
        if up and self.give_up_seconds is not None and not (self._link.up and self._link.down):
            left = since + self.give_up_seconds - self._network.kernel.moment
            self._network.kernel.after(max(0.0, left), self._give_up)

    def _give_up(self) -> None:
        """Break, if bytes or their acknowledgement still don't come through (TCP_USER_TIMEOUT)."""
        if not self._link.down or any(up for up, _ in self._held):
            self._held.clear()
            self._lose_client()
            self.client.lost(TimeoutError(110, "Connection timed out"))

    def _to_server(self, data: bytes) -> None:
        if self.server is not None:
            self.server.received(data)

    def _lose_client(self) -> None:
        server, self.server = self.server, None
        if server is not None:
            server.lost()
        self._network.forget(self)


class SocketOptions:
    """A socket before it is connected."""

    def __init__(self, *_: int) -> None:
        self.options: list[tuple[int, int, int]] = []

    def setsockopt(self, *option: int) -> None:
        """Note an option for the connection."""
        level, name, value = option
        self.options.append((level, name, value))


class Transport(asyncio.Transport):
    """The client's end, and its socket."""

    family = socket.AF_INET

    def __init__(self, connection: Connection, loop: Any) -> None:
        super().__init__()
        self._connection = connection
        self._loop = loop
        self._protocol: Any = None
        self._closing = False
        self._paused = False
        self._waiting: list[bytes] = []

    def begin(self, protocol: Any) -> None:
        """Connect the protocol."""
        self._protocol = protocol
        protocol.connection_made(self)

    def received(self, data: bytes) -> None:
        """Bytes have arrived; called by the kernel."""
        self._in_loop(self._take, data)

    def lost(self, error: Exception | None) -> None:
        """The connection has ended; called by the kernel."""
        self._in_loop(self._lose, error)

    def write(self, data: Any) -> None:
        """Send bytes."""
        if data and not self._closing:
            self._connection.send(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        """Send several pieces as one."""
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        """Whether the end has begun."""
        return self._closing

    def close(self) -> None:
        """Close this end."""
        if not self._closing:
            self._closing = True
            self._connection.hang_up()
            self._loop.call_soon(self._end, None)

    def abort(self) -> None:
        """Close this end."""
        self.close()

    def pause_reading(self) -> None:
        """Keep what comes in."""
        self._paused = True

    def resume_reading(self) -> None:
        """Pass on what came in meanwhile."""
        self._paused = False
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            self._take(data)

    def is_reading(self) -> bool:
        """Whether bytes are passed on."""
        return not self._paused and not self._closing

    def set_protocol(self, protocol: Any) -> None:
        """Pass on to another protocol."""
        self._protocol = protocol

    def get_protocol(self) -> Any:
        """Who gets the bytes."""
        return self._protocol

    def can_write_eof(self) -> bool:
        """No."""
        return False

    def get_write_buffer_size(self) -> int:
        """Nothing waits here."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing waits here."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Addresses, and the socket."""
        known = {"peername": ("10.0.0.1", 80), "sockname": ("10.0.0.2", 1), "socket": self}
        return known.get(name, default)

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """Set an option, as of a socket."""
        if (level, option) == (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT):
            self._connection.give_up_seconds = value / 1000

    def _in_loop(self, call: Callable[..., None], *arguments: Any) -> None:
        if not self._loop.is_closed() and not self._connection.process.ended:
            self._loop.call_soon_threadsafe(call, *arguments)

    def _take(self, data: bytes) -> None:
        if self._closing or self._protocol is None:
            return
        if self._paused:
            self._waiting.append(data)
        else:
            self._protocol.data_received(data)

    def _lose(self, error: Exception | None) -> None:
        if self._closing:
            return
        self._closing = True
        if error is None and self._protocol is not None:
            self._protocol.eof_received()
        self._connection.hang_up()
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(error)

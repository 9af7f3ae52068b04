"""Puts simulated clocks, threads and chance in the place of the real ones, for good.

A simulation has a program of its own, so nothing is put back.
"""

import asyncio
import functools
import os
import random
import signal
import socket
import ssl
import time
import types
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from typing import Any

import aiohappyeyeballs
import yaml
from aiohttp import connector
from kopf._cogs.clients import scanning
from kopf._cogs.structs import references
from kopf._core.reactor import running

from tests.simulation.kernel.core import Kernel
from tests.simulation.kernel.loops import SimLoop
from tests.simulation.kernel.network import SocketOptions
from tests.simulation.kernel.orders import OrderedSet
from tests.simulation.kernel.threads import Machine, SimpleQueue, Threading
from vscheduler.cluster.cooperative import CooperativeYield
from vscheduler.cluster.http import pool
from vscheduler.containment import Failures
from vscheduler.daemon import application, cycle_thread, process
from vscheduler.daemon.leader_election import thread
from vscheduler.daemon.liveness import signals, watchdog
from vscheduler.daemon.liveness.watchdog import Outlets
from vscheduler.mirror import state
from vscheduler.mirror.state import Mirror

THREADED = (cycle_thread, signals, thread, watchdog, running, asyncio.runners)
CLOCKED = (connector,)
"""Modules that took `monotonic` when they were imported; aiohttp closes old connections by it."""
CYCLE_SECONDS = (0.002, 0.3)
"""How long each half of a cycle takes."""

end_program = os._exit
"""The real one."""


class Chance(random.Random):
    """Without a seed, one from the process's own chance."""

    source = random.Random(0)

    def __init__(self, seed: Any = None) -> None:
        super().__init__(Chance.source.getrandbits(64) if seed is None else seed)


class NoTimer:
    """In place of the timer that has the real kernel end the process."""

    def __init__(self, seconds: float) -> None:
        del seconds

    def hold(self) -> None:
        """Nothing to do."""

    def let_go(self) -> None:
        """Nothing to do."""


def install(kernel: Kernel, seed: str) -> Machine:
    """Patch; gives the machine that knows which thread runs."""
    machine = Machine(kernel)
    Chance.source = random.Random(f"{seed}/chance")
    random.seed(f"{seed}/module")
    _patch_time(machine)
    _patch_chance()
    _patch_threads(machine)
    _patch_sets()
    _patch_credentials()
    _keep_mirrors(machine)
    return machine


def _patch_time(machine: Machine) -> None:
    kernel = machine.kernel

    def wall() -> float:
        return machine.process.clock.wall() if kernel.current else kernel.now()

    def monotonic() -> float:
        return machine.process.clock.monotonic() if kernel.current else kernel.moment

    def gettime(clock: int) -> float:
        if clock == time.CLOCK_BOOTTIME and kernel.current:
            return machine.process.clock.boot()
        return monotonic()

    def thread_time() -> float:
        if kernel.current is None:
            return 0.0
        running_thread = machine.thread
        if running_thread.name.endswith("/cycle"):
            seconds = machine.process.chance.uniform(*CYCLE_SECONDS)
            running_thread.cpu_seconds += seconds
            kernel.sleep(seconds)
        return running_thread.cpu_seconds

    patched: dict[str, Any] = {
        "time": wall,
        "time_ns": lambda: int(wall() * 1e9),
        "monotonic": monotonic,
        "perf_counter": monotonic,
        "clock_gettime": gettime,
        "thread_time": thread_time,
        "sleep": kernel.sleep,
    }
    _replace(time, **patched)
    for module in CLOCKED:
        _replace(module, monotonic=monotonic)
    _replace(CooperativeYield.__init__, __defaults__=(monotonic,))
    _keyword_default(Failures, "clock", monotonic)


def _patch_chance() -> None:
    _replace(random, Random=Chance)
    _replace(os, urandom=Chance.source.randbytes)


def _keep_mirrors(machine: Machine) -> None:
    class Kept(Mirror):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            machine.process.mirror = self

    _replace(state, Mirror=Kept)


def _patch_threads(machine: Machine) -> None:
    def new_loop() -> SimLoop:
        return SimLoop(machine.process)

    def leave(status: int) -> None:
        machine.process.exit(status)

    def ignore(number: int, action: object) -> None:
        assert action is signal.SIG_IGN, "a signal is ignored, or its handler is in the event loop"
        machine.process.ignore(number)

    shim = Threading(machine)
    for module in THREADED:
        _replace(module, threading=shim)
    _replace(cycle_thread, queue=types.SimpleNamespace(SimpleQueue=SimpleQueue))
    _replace(asyncio, SelectorEventLoop=new_loop, new_event_loop=new_loop)
    _replace(os, _exit=leave)
    _replace(
        signals,
        signal=types.SimpleNamespace(
            SIGHUP=signal.SIGHUP,
            SIG_IGN=signal.SIG_IGN,
            getsignal=lambda _: signal.SIG_DFL,
            signal=ignore,
        ),
    )
    _replace(socket, gethostname=lambda: machine.process.name)
    _replace(aiohappyeyeballs, start_connection=_no_socket)
    names = ("AI_NUMERICHOST", "IPPROTO_TCP", "SOCK_STREAM", "TCP_USER_TIMEOUT", "getaddrinfo")
    options = {name: getattr(socket, name) for name in (*names, "gaierror")}
    _replace(pool, socket=types.SimpleNamespace(socket=SocketOptions, **options))
    outlets = functools.partial(Outlets, end=leave)
    _replace(watchdog, KillTimer=NoTimer, Outlets=outlets)
    unused = dict.fromkeys(("disable", "enable", "freeze", "set_threshold"), _nothing)
    for module in (application, process):
        _replace(module, gc=types.SimpleNamespace(**unused))


def _replace(owner: object, **values: object) -> None:
    for name, value in values.items():
        setattr(owner, name, value)


def _keyword_default(kind: type, name: str, value: object) -> None:
    """Replace a default that was taken when the class was made."""
    kind.__init__.__kwdefaults__[name] = value  # type: ignore[misc]


async def _no_socket(
    addr_infos: Sequence[Any], *, socket_factory: Callable[[Any], Any] | None, **_: object
) -> Any:
    """In place of sockets: options only, the event loop connects without any."""
    return socket_factory(addr_infos[0]) if socket_factory else None


def _patch_sets() -> None:
    """Sets of Kopf's selectors and coroutines, and of aiohttp's connections in use, have an order
    that depends on addresses.
    """
    _replace(connector.BaseConnector, __init__=_ordered(connector.BaseConnector.__init__))
    _replace(references.Selector, __hash__=_hash_of_text)  # hash(None) is an address in Python 3.11
    _replace(scanning, asyncio=types.SimpleNamespace(as_completed=_as_completed))


def _patch_credentials() -> None:
    """Credentials are read once a second while they are refused: nothing uses TLS, so all processes
    share a context, and libyaml reads kubeconfigs.
    """
    _replace(ssl, create_default_context=functools.cache(ssl.create_default_context))
    _replace(yaml, safe_load=functools.partial(yaml.load, Loader=yaml.CSafeLoader))


def _ordered(begin: Callable[..., None]) -> Callable[..., None]:
    """Let a connector close its connections in the order in which they were taken into use."""

    def begin_ordered(self: connector.BaseConnector, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        self._acquired = OrderedSet()  # type: ignore[assignment]  # all that is used of a set

    return begin_ordered


def _hash_of_text(selector: references.Selector) -> int:
    return hash(repr(selector))


def _as_completed(calls: Collection[Coroutine[Any, Any, Any]]) -> Iterator[Awaitable[Any]]:
    """Begin in the order of names and URLs."""

    def place(call: Any) -> tuple[str, str]:
        return call.__qualname__, call.cr_frame.f_locals.get("url", "")

    return asyncio.as_completed([asyncio.ensure_future(call) for call in sorted(calls, key=place)])


def _nothing(*_: object) -> None:
    pass

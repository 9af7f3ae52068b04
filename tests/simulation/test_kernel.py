"""The simulated machine itself: time, threads, loops, processes, the network."""

import asyncio
import random
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest

from tests.simulation.kernel import patching
from tests.simulation.kernel.core import Kernel, LivelockError
from tests.simulation.kernel.loops import SimLoop
from tests.simulation.kernel.network import Network
from tests.simulation.kernel.processes import Clock, Process


class Echo:
    """A server that answers with what came."""

    def __init__(
        self, write: Callable[[bytes], None], close: Callable[[], None], name: str
    ) -> None:
        del close
        self._write = write
        self.name = name

    def received(self, data: bytes) -> None:
        """Send it back."""
        self._write(data)

    def lost(self) -> None:
        """Nothing to do."""


class Machine:
    """A kernel, a network to an echo server, and processes by name."""

    def __init__(self, seed: str = "1") -> None:
        self.kernel = Kernel(seed)
        self.net = Network(self.kernel, Echo, random.Random(seed))
        self.said: list[tuple[float, str]] = []
        self.ended: list[tuple[str, int]] = []

    def say(self, words: str) -> None:
        """Note the moment."""
        self.said.append((round(self.kernel.moment, 3), words))

    def start(self, name: str, main: Callable[[], object]) -> Process:
        """Start a process whose main thread runs a coroutine."""
        process = Process(
            self.kernel,
            name,
            self.net,
            Clock(self.kernel),
            host=f"host-of-{name}",
            seed="1",
            on_end=self._note,
        )

        def run() -> None:
            asyncio.Runner(loop_factory=lambda: SimLoop(process)).run(main())  # type: ignore[arg-type]

        process.start(run)
        return process

    def _note(self, process: Process, status: int) -> None:
        self.ended.append((process.name, status))


@pytest.fixture
def machine() -> Machine:
    """A machine with seed 1."""
    return Machine()


def test_sleeps_end_in_virtual_time(machine: Machine) -> None:
    """An hour takes no time."""

    async def main() -> None:
        await asyncio.sleep(3600)
        machine.say("awake")

    machine.start("one", main)
    machine.kernel.run(4000)
    assert machine.said == [(3600.0, "awake")]
    assert machine.ended == [("one", 0)]


def test_a_process_that_stands_still_goes_on_later(machine: Machine) -> None:
    """Timers that ran out meanwhile are late."""

    async def main() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            machine.say("tick")

    process = machine.start("one", main)
    machine.kernel.after(1.5, process.stop)
    machine.kernel.after(10, process.go_on)
    machine.kernel.run(20)
    assert [at for at, _ in machine.said] == [1.0, 10.0, 11.0]


def test_a_suspended_machine_counts_its_sleep_by_one_clock_only(machine: Machine) -> None:
    """CLOCK_BOOTTIME goes on; the monotonic clock doesn't."""
    clock = Clock(machine.kernel)
    machine.kernel.run(10)
    assert clock.boot() == clock.monotonic()
    clock.asleep_seconds += 4
    assert clock.boot() - clock.monotonic() == 4


def test_a_process_that_ends_says_nothing_more(machine: Machine) -> None:
    """Not even in its finally blocks."""

    async def main() -> None:
        while True:
            await asyncio.sleep(1)
            machine.say("tick")

    process = machine.start("one", main)
    machine.kernel.after(2.5, lambda: process.end(9))
    machine.kernel.run(20)
    assert len(machine.said) == 2
    assert machine.ended == [("one", 9)]


def test_a_failure_of_the_main_thread_is_kept(machine: Machine) -> None:
    """And the status is 1."""

    async def main() -> None:
        raise ValueError("broken")

    process = machine.start("one", main)
    machine.kernel.run(1)
    assert machine.ended == [("one", 1)]
    assert [str(error) for error in process.errors] == ["broken"]


def test_the_end_of_a_thread_leaves_its_creator_alone(machine: Machine) -> None:
    """A creator that sleeps goes on sleeping."""

    async def main() -> None:
        thread = asyncio.get_running_loop().run_in_executor(None, lambda: machine.say("done"))
        await asyncio.sleep(10)
        machine.say("awake")
        await thread
        assert asyncio.get_running_loop() is not None

    process = machine.start("one", main)
    machine.kernel.run(20)
    assert machine.said == [(0.0, "done"), (10.0, "awake")]
    assert process.errors == []


class Client(asyncio.Protocol):
    """Collects what comes."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def data_received(self, data: bytes) -> None:
        """Note it."""
        self._machine.say(data.decode())

    def connection_lost(self, error: Exception | None) -> None:
        """Note it."""
        self._machine.say(f"lost {type(error).__name__}")


async def talk(machine: Machine, first: bytes = b"a", *, give_up_seconds: int = 0) -> None:
    """Say two things a second apart, and wait."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(lambda: Client(machine), "10.0.0.1", 80)
    if give_up_seconds:
        opened = transport.get_extra_info("socket")
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, give_up_seconds * 1000)
    transport.write(first)
    await asyncio.sleep(1)
    transport.write(b"b")
    await asyncio.sleep(100)


def test_bytes_go_there_and_back(machine: Machine) -> None:
    """Within some milliseconds."""
    machine.start("one", lambda: talk(machine))
    machine.kernel.run(5)
    assert [words for _, words in machine.said] == ["a", "b"]
    assert machine.said[0][0] < 0.02


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_partition_holds_bytes_until_it_ends(machine: Machine, way: str) -> None:
    """As TCP does."""
    machine.start("one", lambda: talk(machine))
    link = machine.net.link("host-of-one")
    machine.kernel.after(0.5, lambda: setattr(link, way, False))

    def heal() -> None:
        setattr(link, way, True)
        machine.net.release("host-of-one")

    machine.kernel.after(30, heal)
    machine.kernel.run(60)
    assert [words for _, words in machine.said] == ["a", "b"]
    assert 30 <= machine.said[1][0] < 30.02


@pytest.mark.parametrize("host", ["", "host-of-one"])
def test_a_reset_ends_the_connection_at_both_ends(machine: Machine, host: str) -> None:
    """The client learns of it."""
    machine.start("one", lambda: talk(machine))
    machine.kernel.after(0.5, lambda: machine.net.reset(host))
    machine.kernel.run(60)
    assert [words for _, words in machine.said] == ["a", "lost ConnectionResetError"]


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_kernel_gives_up_where_it_was_told_to(machine: Machine, way: str) -> None:
    """TCP_USER_TIMEOUT: what isn't acknowledged in time never arrives, or breaks the connection."""
    machine.start("one", lambda: talk(machine, give_up_seconds=4))
    link = machine.net.link("host-of-one")
    machine.kernel.after(0.5, lambda: setattr(link, way, False))
    machine.kernel.run(60)
    setattr(link, way, True)
    machine.net.release("host-of-one")
    machine.kernel.run(60)
    assert [words for _, words in machine.said] == ["a", "lost TimeoutError"]
    assert 5 <= machine.said[1][0] < 5.02


def test_a_reset_leaves_other_hosts_alone(machine: Machine) -> None:
    """One host's connections are broken, and no others."""
    machine.start("one", lambda: talk(machine))
    machine.kernel.after(0.5, lambda: machine.net.reset("host-of-two"))
    machine.kernel.run(60)
    assert [words for _, words in machine.said] == ["a", "b"]


def test_silence_is_for_ever(machine: Machine) -> None:
    """Of watches only."""
    machine.start("one", lambda: talk(machine, b"GET /pods?watch=true HTTP/1.1\r\n"))
    machine.start("two", lambda: talk(machine, b"GET /pods HTTP/1.1\r\n"))
    machine.kernel.after(0.5, lambda: machine.net.silence("host-of-one"))
    machine.kernel.after(0.5, lambda: machine.net.silence("host-of-two"))
    machine.kernel.run(600)
    assert len(machine.said) == 1 + 2


def test_no_server_refuses(machine: Machine) -> None:
    """Nobody listens."""
    machine.net.serving = False
    process = machine.start("one", lambda: talk(machine))
    machine.kernel.run(60)
    assert [type(error) for error in process.errors] == [ConnectionRefusedError]


def test_what_was_sent_before_the_end_arrives(machine: Machine) -> None:
    """The network knows nothing of the end."""
    arrived: list[bytes] = []

    class Sink(Echo):
        def received(self, data: bytes) -> None:
            arrived.append(data)

    machine.net = Network(machine.kernel, Sink, random.Random("1"))
    process = machine.start("one", lambda: talk(machine))
    while not machine.net.bytes_sent:
        machine.kernel.run(0.0001)
    process.end(9)
    assert arrived == []
    machine.kernel.run(10)
    assert arrived == [b"a"]


def test_a_signal_ends_who_neither_handles_nor_ignores_it(machine: Machine) -> None:
    """With the status that a shell shows."""
    for name in ("one", "two"):
        process = machine.start(name, lambda: asyncio.sleep(5))
        if name == "two":
            process.ignore(15)
        process.signal(15)
    assert machine.ended == [("one", 143)]


def test_a_loop_that_never_waits_is_found(machine: Machine) -> None:
    """Otherwise the simulation would hang."""

    async def main() -> None:
        while True:  # noqa: ASYNC110 - the point of this test
            await asyncio.sleep(0)

    machine.start("one", main)
    with pytest.raises(LivelockError):
        machine.kernel.run(2)


def test_the_order_of_threads_depends_on_the_seed() -> None:
    """And on nothing else."""

    def story(seed: str) -> list[tuple[float, str]]:
        machine = Machine(seed)

        async def main(name: str) -> None:
            for _ in range(20):
                await asyncio.sleep(1)
                machine.say(name)

        for name in "abc":
            machine.start(name, lambda name=name: main(name))  # type: ignore[misc]
        machine.kernel.run(30)
        return machine.said

    assert story("1") == story("1")
    assert story("1") != story("2")


def test_no_module_keeps_the_real_clock() -> None:
    """A module that takes a clock when it is imported has its name in a list of the patches.

    Otherwise a history would depend on how busy the real machine is.
    """
    clocks = (time.time, time.time_ns, time.monotonic, time.perf_counter, time.thread_time)
    simulated = ("aiohappyeyeballs", "aiohttp", "kopf", "kubernetes", "vscheduler")
    kept = {
        name
        for name, module in sys.modules.items()
        if name.partition(".")[0] in simulated
        and any(value is clock for value in vars(module).values() for clock in clocks)
    }
    assert kept == {module.__name__ for module in patching.CLOCKED}


MANY = 200
"""So many objects lie at addresses in no order."""


def test_generators_are_closed_in_the_order_in_which_they_began(machine: Machine) -> None:
    """Whatever their addresses."""
    closed: list[int] = []

    async def count(number: int) -> AsyncIterator[int]:
        try:
            yield number
        finally:
            closed.append(number)

    async def begin() -> None:
        made = [count(number) for number in range(MANY)]
        random.Random(1).shuffle(made)
        begun.extend([await anext(generator) for generator in made])
        await asyncio.get_running_loop().shutdown_asyncgens()

    begun: list[int] = []
    machine.start("one", begin)
    machine.kernel.run(1.0)
    assert closed == begun != sorted(begun)


def test_connections_in_use_are_closed_in_the_order_in_which_they_were_taken() -> None:
    """A connector's set of them would have the order of addresses."""

    class Connection:
        transport = closed = None

        def __init__(self, number: int) -> None:
            self.number = number

        def close(self) -> None:
            ended.append(self.number)

    def nothing(_: aiohttp.BaseConnector) -> None:
        pass

    async def end() -> None:
        connector = aiohttp.TCPConnector()
        patching._ordered(nothing)(connector)
        made = [Connection(number) for number in range(MANY)]
        random.Random(1).shuffle(made)
        taken.extend(made)
        for each in made:
            connector._acquired.add(each)  # type: ignore[arg-type]  # closed like one
        await connector.close()

    ended: list[int] = []
    taken: list[Connection] = []
    asyncio.run(end())
    assert ended == [each.number for each in taken]

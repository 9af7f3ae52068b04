"""Event loops on virtual time. asyncio's own loop, with a selector that lets the kernel go on."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

from tests.simulation.kernel.core import Kernel, Thread
from tests.simulation.kernel.network import Transport
from tests.simulation.kernel.orders import OrderedWeakSet
from tests.simulation.kernel.processes import Process

RESOLUTION_SECONDS = 1e-6
_numbers = itertools.count(1)


class SimTask(asyncio.Task[Any]):
    """A task whose place in a set doesn't depend on its address."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._number = next(_numbers)
        super().__init__(*arguments, **named)
        self._log_destroy_pending = False  # a process may end at any moment

    def __hash__(self) -> int:
        return self._number


class SimFuture(asyncio.Future[Any]):
    """The same for a future."""

    def __init__(self, **named: Any) -> None:
        self._number = next(_numbers)
        super().__init__(**named)

    def __hash__(self) -> int:
        return self._number


class _Selector:
    """Waits in place of a real selector."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def select(self, timeout: float | None) -> list[Any]:
        """Let other threads run until woken, or until it is time."""
        if timeout is not None and timeout <= 0:
            self._kernel.give_way()
        else:
            self._kernel.wait(timeout)
        return []


class SimLoop(asyncio.BaseEventLoop):
    """The event loop of a simulated thread."""

    def __init__(self, process: "Process") -> None:
        super().__init__()
        self._process = process
        self._kernel = process.kernel
        self._thread: Thread | None = None
        self._selector = _Selector(process.kernel)
        self._clock_resolution = RESOLUTION_SECONDS
        # An end closes the generators that are left, which may close connections.
        self._asyncgens = OrderedWeakSet()
        factory: Any = _task
        self.set_task_factory(factory)

    def __del__(self) -> None:
        """Don't warn of a loop that wasn't closed: a process may end at any moment."""

    def time(self) -> float:
        """Seconds by the process's clock."""
        return self._process.clock.monotonic()

    def create_future(self) -> SimFuture:
        """Create a future of this loop."""
        return SimFuture(loop=self)

    def run_forever(self) -> None:
        """Run in the current thread."""
        self._thread = self._kernel.current
        super().run_forever()

    def _write_to_self(self) -> None:
        if self._thread is not None:
            self._kernel.wake(self._thread)

    def _process_events(self, event_list: list[Any]) -> None:
        assert not event_list

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        """Run in a thread of its own."""
        assert executor is None
        future = self.create_future()

        def settle(error: BaseException | None, value: Any) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

        def run() -> None:
            error, value = None, None
            try:
                value = func(*args)
            except Exception as raised:  # noqa: BLE001 - the caller's
                error = raised
            if not self.is_closed():
                self.call_soon_threadsafe(settle, error, value)

        self._process.start_thread("executor", run)
        return future

    async def create_connection(
        self,
        protocol_factory: Callable[[], Any],
        *address: Any,
        sock: Any = None,
        **named: Any,
    ) -> tuple[Transport, Any]:
        """Connect to the API server, whatever the address, with the options of a socket."""
        del address, named
        transport = await self._process.network.connect(self, self._process)
        for option in sock.options if sock else ():
            transport.setsockopt(*option)
        protocol = protocol_factory()
        transport.begin(protocol)
        return transport, protocol

    def add_signal_handler(  # type: ignore[override]
        self, sig: int, callback: Callable[..., object], *args: Any
    ) -> None:
        """Call on a signal."""
        self._process.handlers[sig] = (self, callback, args)

    def remove_signal_handler(self, sig: int) -> bool:
        """Don't any more."""
        return self._process.handlers.pop(sig, None) is not None


def _task(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **named: Any
) -> SimTask:
    return SimTask(coroutine, loop=loop, **named)

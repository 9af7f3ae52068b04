"""Somebody who works beside a test."""

from collections.abc import Callable
from threading import Event, Thread


class Background:
    """A thread that does the same work again and again, with pauses in seconds."""

    def __init__(self, work: Callable[[], object], *, pause: float) -> None:
        self._work = work
        self._pause = pause
        self._ended = Event()
        self._problems: list[Exception] = []
        self._thread = Thread(target=self._run)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """What is under way is finished; then nothing more is done. Nothing has gone wrong."""
        self._ended.set()
        self._thread.join()
        assert self._problems == []

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                self._work()
                self._ended.wait(self._pause)
        except Exception as error:  # noqa: BLE001 - told by `stop`
            self._problems.append(error)

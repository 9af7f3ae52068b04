import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from vscheduler.daemon.observability.logs import LineWriter

PATIENCE_SECONDS = 50.0


@dataclass(frozen=True)
class Pipe:
    """Both ends of a pipe."""

    reading: int
    writing: int

    def read(self, *, until: bytes) -> bytes:
        """All that comes until something has come."""
        found = b""
        while until not in found:
            found += os.read(self.reading, 65536)
        return found


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """A pipe that nobody reads; it isn't closed, as a thread may write to it for ever."""
    ends = Pipe(*os.pipe())
    fcntl.fcntl(ends.writing, fcntl.F_SETPIPE_SZ, 4096)
    yield ends
    os.set_blocking(ends.reading, False)
    try:
        while os.read(ends.reading, 65536):
            pass
    except BlockingIOError:
        pass


def test_lines_come_out_as_they_were_put_in(pipe: Pipe) -> None:
    """Of one thread; and all are written when `flush` says so."""
    writer = LineWriter(pipe.writing)
    for number in range(100):
        writer.put(b"%d\n" % number)
    assert writer.flush(PATIENCE_SECONDS)
    assert os.read(pipe.reading, 65536) == b"".join(b"%d\n" % each for each in range(100))
    assert writer.dropped == 0


@pytest.mark.parametrize("blocking", [True, False])
def test_nobody_waits_for_a_reader(pipe: Pipe, *, blocking: bool) -> None:
    """Old lines go, and when somebody reads again they stand where these would have been."""
    os.set_blocking(pipe.writing, blocking)
    writer = LineWriter(pipe.writing, lines_max=50)
    count = 5000
    for number in range(count):
        writer.put(b"%05d %s\n" % (number, b"x" * 100))
    assert writer.dropped > 0
    assert not writer.flush(0.05)
    lines = pipe.read(until=b"%05d x" % (count - 1)).split(b"\n")
    assert writer.flush(PATIENCE_SECONDS)
    expected, told = 0, 0
    for line in lines[:-1]:
        if line.endswith(b"lines dropped"):
            gap = int(line.split()[0])
            expected, told = expected + gap, told + gap
        else:
            assert int(line[:5]) == expected
            expected += 1
    assert told == writer.dropped


def test_it_keeps_no_more_bytes_than_it_may(pipe: Pipe) -> None:
    """Few long lines are as bad as many short ones."""
    writer = LineWriter(pipe.writing, bytes_max=300_000)
    for _ in range(100):
        writer.put(b"x" * 99_999 + b"\n")
    # One may be on its way, two or three wait.
    assert 100 - 4 - 1 <= writer.dropped <= 100 - 2


def test_a_line_that_is_too_long_is_cut(pipe: Pipe) -> None:
    """And it is a line still."""
    writer = LineWriter(pipe.writing, bytes_max=100)
    writer.put(b"x" * 1000 + b"\n")
    assert pipe.read(until=b"\n") == b"x" * 99 + b"\n"


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF])
def test_a_file_that_takes_nothing_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, pipe: Pipe, number: int
) -> None:
    """What it doesn't take counts as dropped, and is told of once it takes lines again."""
    broken, write = threading.Event(), os.write
    broken.set()

    def fail(descriptor: int, data: bytes) -> int:
        if broken.is_set():
            raise OSError(number, os.strerror(number))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", fail)
    writer = LineWriter(pipe.writing)
    writer.put(b"one\n")
    writer.put(b"two\n")
    assert writer.flush(PATIENCE_SECONDS)
    assert writer.dropped == 2
    broken.clear()
    writer.put(b"three\n")
    assert pipe.read(until=b"three\n") == b"2 lines dropped\nthree\n"


def test_a_full_disk_and_a_pipe_without_reader() -> None:
    """As they really are."""
    full = os.open("/dev/full", os.O_WRONLY)
    reading, writing = os.pipe()
    os.close(reading)
    for descriptor in (full, writing):
        writer = LineWriter(descriptor)
        writer.put(b"one\n")
        assert writer.flush(PATIENCE_SECONDS)
        assert writer.dropped == 1
        os.close(descriptor)


def test_a_file_may_take_a_line_bit_by_bit(monkeypatch: pytest.MonkeyPatch, pipe: Pipe) -> None:
    """It comes out whole."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    writer = LineWriter(pipe.writing)
    writer.put(b"a line of some length\n")
    assert writer.flush(PATIENCE_SECONDS)
    assert os.read(pipe.reading, 4096) == b"a line of some length\n"


def test_many_threads_may_put(pipe: Pipe) -> None:
    """No line is lost, and none is cut in two."""
    writer = LineWriter(pipe.writing)

    def put(name: int) -> None:
        for number in range(500):
            writer.put(b"%d-%d\n" % (name, number))

    threads = [threading.Thread(target=put, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    found = b""
    while found.count(b"\n") < 8 * 500:
        found += os.read(pipe.reading, 65536)
    for thread in threads:
        thread.join()
    assert sorted(found.split()) == sorted(
        b"%d-%d" % (name, number) for name in range(8) for number in range(500)
    )

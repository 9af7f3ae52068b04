"""The writer's turns, whatever happens to its file."""

import sqlite3
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from structlog import testing

from tests.unit.history.clusters import START, Cluster, group, pod
from vscheduler.history import schema, writer
from vscheduler.history.records import Batch, JobState
from vscheduler.history.store import InUseError, Limits, Store
from vscheduler.history.writer import Writer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the history is."""
    return tmp_path / "history.db"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for another try."""
    monkeypatch.setattr(writer, "AGAIN_SECONDS", 0.0)


def seen_one(path: Path) -> Cluster:
    """A cluster with a pod that runs, which is written."""
    cluster = Cluster(path)
    cluster.begin()
    cluster.show(group("train"), pod("a", "train", bound=10))
    cluster.turn()
    return cluster


def events(logs: Sequence[Mapping[str, object]]) -> list[object]:
    """What was logged."""
    return [each["event"] for each in logs]


def test_a_file_that_cant_be_opened_is_tried_again(path: Path) -> None:
    """The scheduler goes on; nothing is lost, and the log says so once."""
    path.parent.joinpath("missing").write_text("no directory")
    cluster = Cluster(path.parent / "missing" / "history.db")
    with testing.capture_logs() as logs:
        cluster.begin()
        cluster.show(group("train"), pod("a", "train", bound=10))
        cluster.turn()
        assert not cluster.writer.status.works
        path.parent.joinpath("missing").unlink()
        path.parent.joinpath("missing").mkdir()
        cluster.turn()
    assert events(logs) == ["history.not_written", "history.written_again"]
    assert list(cluster.jobs()) == ["train"]
    assert (cluster.writer.status.works, cluster.writer.status.lost) == (True, 0)


def test_the_file_is_for_its_owner_and_sorting_needs_no_other(path: Path) -> None:
    """A container's root may be read-only, and the names in it are of all tenants."""
    cluster = seen_one(path)
    store = cluster.writer._work._store
    assert store is not None
    for each in (path, Path(f"{path}-wal"), Path(f"{path}.lock")):
        assert each.stat().st_mode & 0o777 == 0o600
    reading = schema.open_to_read(path)
    for link in (store._link, reading):
        assert link.execute("PRAGMA temp_store").fetchone() == (2,)
    reading.close()


def test_a_full_disk_loses_nothing_while_memory_lasts(path: Path) -> None:
    """A transaction that fails changes nothing, and is tried again."""
    cluster = seen_one(path)
    store = cluster.writer._work._store
    assert store is not None
    pages = store._link.execute("PRAGMA page_count").fetchone()[0]
    store._link.execute(f"PRAGMA max_page_count = {pages}")
    with testing.capture_logs() as logs:
        for number in range(300):
            cluster.show(pod(f"p{number}", "train", bound=20, node=f"node-{number}"))
            cluster.turn()
        assert not cluster.writer.status.works
        assert "full" in str(logs[0]["message"])
        store._link.execute("PRAGMA max_page_count = 100000")
        cluster.turn()
    assert events(logs) == ["history.not_written", "history.written_again"]
    assert cluster.jobs()["train"].pods == 301
    assert cluster.writer.status.lost == 0


def test_what_waits_too_long_is_lost_and_counted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest first, so that memory is bounded."""
    from vscheduler.history import recorder  # noqa: PLC0415

    monkeypatch.setattr(recorder, "RECORDS_MAX", 10)
    cluster = seen_one(path)
    store = cluster.writer._work._store
    assert store is not None
    pages = store._link.execute("PRAGMA page_count").fetchone()[0]
    store._link.execute(f"PRAGMA max_page_count = {pages}")
    for number in range(400):
        cluster.show(pod(f"p{number}", "train", bound=20, ended=30, node=f"node-{number}"))
    cluster.turn()
    assert cluster.writer.status.lost >= 300


@pytest.mark.parametrize("damage", ["no database", "zeros", "an index"])
def test_a_damaged_file_is_moved_aside(path: Path, damage: str) -> None:
    """The log says where to; all that runs is recorded in a new file."""
    cluster = seen_one(path)
    cluster.end()
    content = bytearray(path.read_bytes())
    size = 4096
    if damage == "no database":
        content[:100] = b"x" * 100
    elif damage == "zeros":
        content[size : 20 * size] = bytes(19 * size)
    else:
        with sqlite3.connect(path) as link:
            root = link.execute("SELECT rootpage FROM sqlite_schema WHERE name='usage'").fetchone()
        link.close()
        content[(root[0] - 1) * size : root[0] * size] = bytes(size)
    path.write_bytes(content)
    with testing.capture_logs() as logs:
        cluster.begin()
        cluster.turn()
    assert events(logs) == ["history.damaged"]
    moved = Path(str(logs[0]["moved_to"]))
    assert moved.read_bytes() == content
    assert cluster.jobs()["train"].started == START + 10
    assert cluster.writer.status.works


def test_damage_that_shows_later_is_found_as_well(path: Path) -> None:
    """All that may change still is written again."""
    cluster = seen_one(path)
    work = cluster.writer._work
    assert work._store is not None

    def fails(batch: Batch, now: int) -> None:
        del batch, now
        raise sqlite3.DatabaseError("database disk image is malformed")

    work._store.write = fails  # type: ignore[method-assign]
    cluster.now = 30
    cluster.show(pod("b", "train", bound=20))
    with testing.capture_logs() as logs:
        cluster.turn()
        cluster.turn()
    assert events(logs) == ["history.damaged"]
    assert cluster.jobs()["train"].pods == 2
    assert cluster.jobs()["train"].pod_seconds["pods"] == 20 + 10


def test_a_deleted_file_is_made_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing to a file without a name succeeds, and nobody would ever read it."""
    monkeypatch.setattr(writer, "PRUNE_SECONDS", -1.0)
    cluster = seen_one(path)
    path.unlink()
    cluster.turn()
    cluster.turn()
    assert list(cluster.jobs()) == ["train"]


def test_a_file_of_a_newer_program_is_left_alone(path: Path) -> None:
    """Whoever goes back to an older version keeps the newer history."""
    with sqlite3.connect(path) as link:
        link.execute("CREATE TABLE future (x)")
        link.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    link.close()
    cluster = Cluster(path)
    with testing.capture_logs() as logs:
        cluster.begin()
        cluster.turn()
    assert events(logs) == ["history.not_written"]
    assert "newer" in str(logs[0]["message"])
    with sqlite3.connect(path) as link:
        assert [row[0] for row in link.execute("SELECT name FROM sqlite_schema")] == ["future"]
    link.close()


def test_one_process_writes_at_a_time(path: Path) -> None:
    """The other one waits until it may, and then compares what there is with what is stored."""
    first = seen_one(path)
    with pytest.raises(InUseError):
        Store(path, Limits())
    second = Cluster(path)
    second.show(group("train"), pod("a", "train", bound=10))
    with testing.capture_logs() as logs:
        second.begin()
        second.now = 50
        second.show(pod("a", "train", bound=10, ended=45))
        second.turn()
    assert events(logs) == ["history.not_written"]
    first.end()
    second.turn()
    assert second.jobs()["train"].pod_seconds["pods"] == 35
    second.end()


def test_changes_beyond_the_bound_are_made_up_for(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are counted, and the next cycle lists all again."""
    monkeypatch.setattr(writer, "CHANGES_MAX", 10)
    cluster = seen_one(path)
    for number in range(30):
        cluster.show(pod(f"p{number}", "train", bound=20))
    assert cluster.writer.status.lost == 20
    cluster.writer.look()  # no room yet
    cluster.turn()
    cluster.writer.look()
    cluster.turn()
    assert cluster.jobs()["train"].pods == 31


@pytest.mark.contains_failures
def test_an_error_that_nobody_expects_ends_neither_the_thread_nor_the_records(path: Path) -> None:
    """It is counted as a failure, and all is listed again."""
    seen: list[str] = []
    cluster = Cluster(path)
    failures = cluster.writer._failures
    failures._observe = seen.append
    cluster.writer._started = False
    work = cluster.writer._work
    turn, fail = work.turn, iter([True])

    def turns(changes: object) -> None:
        if next(fail, False):
            raise KeyError("a defect")
        turn(changes)  # type: ignore[arg-type]

    work.turn = turns  # type: ignore[method-assign]
    cluster.mirror.follow(cluster.writer)
    cluster.writer.begin(["vscheduler"], cluster._list)
    cluster.show(group("train"), pod("a", "train", bound=10))
    until = time.monotonic() + 30
    while not path.exists() or not cluster.writer.status.written:
        assert time.monotonic() < until
        time.sleep(0.05)
    cluster.writer.close()
    assert seen == ["history"]
    assert list(cluster.jobs()) == ["train"]


def test_a_shutdown_writes_what_is_left(path: Path) -> None:
    """And leaves the file to others."""
    cluster = Cluster(path)
    cluster.writer._started = False
    cluster.mirror.follow(cluster.writer)
    cluster.writer.begin(["vscheduler"], cluster._list)
    cluster.show(group("train"), pod("a", "train", bound=10))
    cluster.writer.close()
    assert list(cluster.jobs()) == ["train"]
    Store(path, Limits()).close()


def test_a_change_costs_the_loop_next_to_nothing(path: Path) -> None:
    """It is put in line: far less than 50 µs, and never waits for the file."""
    made = Writer(path, Limits(), Cluster(path).writer._failures)
    made._list = lambda: None  # type: ignore[assignment]
    cluster = Cluster(path)
    cluster.show(pod("a", "train", bound=1))
    (one,), _ = cluster.mirror.told_of()
    began = time.thread_time()
    for _ in range(10_000):
        made.pod(None, one)
    assert time.thread_time() - began < 0.5


def test_the_old_is_forgotten_and_what_runs_is_kept(path: Path) -> None:
    """By age, as of the last end that is known."""
    cluster = Cluster(path, Limits(seconds=1000))
    cluster.begin()
    for number in range(10):
        name = f"job-{number}"
        ended = 100 * number + 50
        cluster.show(group(name), pod(f"{name}-0", name, bound=100 * number, ended=ended))
        cluster.show(group(name, phase="Completed"))
        cluster.remove(pod(f"{name}-0", name, bound=100 * number, ended=ended))
        cluster.remove(group(name, phase="Completed"))
    cluster.show(group("long"), pod("long-0", "long", bound=1))
    cluster.turn()
    store = cluster.writer._work._store
    assert store is not None
    assert store.prune(START + 10**9) == 0  # a clock that is wrong deletes nothing
    cluster.show(group("now"), pod("now-0", "now", bound=1500, ended=1600))
    cluster.turn()
    assert store.prune(START + 1600) == 2 * 6
    assert set(cluster.jobs()) == {"long", "now", "job-6", "job-7", "job-8", "job-9"}
    assert cluster.jobs()["long"].state is JobState.RUNNING


def test_a_file_that_grows_too_large_loses_the_oldest(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is small enough; its pages go back to the disk."""
    monkeypatch.setattr("vscheduler.history.store.PRUNED_AT_ONCE", 100)
    cluster = Cluster(path)
    cluster.begin()
    for number in range(2000):
        name = f"job-{number}"
        cluster.show(group(name), pod(f"{name}-0", name, bound=number, ended=number + 5))
        cluster.remove(pod(f"{name}-0", name, bound=number, ended=number + 5), group(name))
    cluster.turn()
    store = cluster.writer._work._store
    assert store is not None
    store._limits = Limits(size=300_000)
    store._link.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = path.stat().st_size
    while store.prune(START + 3000):
        pass
    assert store.size <= 300_000
    store._link.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert path.stat().st_size < before / 2
    rest = {int(name.partition("-")[2]) for name in cluster.jobs()}
    assert rest == set(range(min(rest), 2000))
    assert len(rest) > 100

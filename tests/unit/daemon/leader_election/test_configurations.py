"""Candidates whose configurations differ: what they say, and who takes over."""

import pytest

from tests.unit.daemon import lease_bench
from tests.unit.daemon.lease_bench import Bench
from tests.unit.daemon.lease_store import Store
from vscheduler.cluster.lease_records import Record

THEIRS = Record(holder="they", duration_seconds=15.0, renewed="then")
TAKEN_SECONDS = 2 * lease_bench.TIMING.duration_seconds


@pytest.fixture
def store() -> Store:
    """A Lease of somebody with configuration aaa."""
    found = Store()
    found.configuration = "aaa"
    found.put(lease_bench.LEASE, THEIRS)
    return found


def candidate(store: Store, configuration: str, *, same_configuration: bool = False) -> Bench:
    """One with this configuration."""
    bench = Bench(store, same_configuration=same_configuration)
    bench.configuration = configuration
    return bench


async def test_a_standby_with_another_configuration_says_so(store: Store) -> None:
    """As long as it stands by; once it leads, the Lease names its own."""
    bench = candidate(store, "bbb")
    await bench.live(1.0)
    assert bench.status.other_configuration == "aaa"
    await bench.live(TAKEN_SECONDS)
    assert bench.status.leads
    assert bench.status.other_configuration == ""
    assert bench.changes[-2].status.other_configuration == "aaa"
    assert store.leases[lease_bench.LEASE].configuration == "bbb"


@pytest.mark.parametrize("ours", ["aaa", ""])
async def test_the_same_configuration_is_nothing_to_tell(store: Store, ours: str) -> None:
    """Nor is one where it doesn't count, as for the Queue controller."""
    bench = candidate(store, ours, same_configuration=True)
    await bench.live(TAKEN_SECONDS)
    assert not any(change.status.other_configuration for change in bench.changes)
    assert bench.status.leads


async def test_another_configuration_may_be_forbidden(store: Store) -> None:
    """The Lease is left alone, and the reason says what to do, once others could lead."""
    bench = candidate(store, "bbb", same_configuration=True)
    await bench.live(1.0)
    assert bench.status.problem == ""
    await bench.live(4 * TAKEN_SECONDS)
    assert store.holder(lease_bench.LEASE) == "they"
    assert set(store.calls) == {"get"}
    assert bench.status.problem == (
        "the Lease names configuration aaa, this instance has bbb, and "
        "--require-same-configuration forbids to change it: give this instance the same "
        "configuration, or remove annotation vscheduler/configuration from Lease "
        "volcano-system/volcano-online"
    )


@pytest.mark.parametrize("way", ["annotation removed", "reloaded"])
async def test_who_was_forbidden_leads_once_nothing_differs(store: Store, way: str) -> None:
    """At the next look."""
    bench = candidate(store, "bbb", same_configuration=True)
    await bench.live(TAKEN_SECONDS)
    if way == "reloaded":
        bench.configuration = "aaa"
    else:
        store.configuration = ""
        store.put(lease_bench.LEASE, THEIRS)
    await bench.live(lease_bench.TIMING.look_seconds)
    assert bench.status.leads
    assert bench.status.problem == ""


async def test_a_leader_may_change_its_configuration(store: Store) -> None:
    """Its next renewal tells of it."""
    bench = candidate(store, "aaa", same_configuration=True)
    await bench.live(TAKEN_SECONDS)
    bench.configuration = "ccc"
    await bench.live(lease_bench.TIMING.renew_seconds)
    assert bench.status.leads
    assert store.leases[lease_bench.LEASE].configuration == "ccc"

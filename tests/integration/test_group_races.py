"""No delete of a PodGroup, however late, hits one that is in use."""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Thread

import pytest
from anyio import from_thread

from sandbox import credentials
from sandbox.client import Client
from sandbox.control_plane import ControlPlane
from tests.faults import proxying
from tests.faults.plans import Plan
from tests.faults.proxying import Proxy, What
from tests.integration import daemons, histories, races
from tests.integration.daemons import Start
from tests.integration.histories import History, Verdict
from tests.integration.races import Fleet, NaiveKeeper

AT_ONCE_MAX = 25
NAIVE_OF_EACH = 4
NAIVE_PASSES_MAX = 15
KILL_SECONDS = (0.5, 4.0)
SEED = 6


@pytest.fixture
def portal() -> Iterator[from_thread.BlockingPortal]:
    """An event loop in a thread, for the proxy and the watches."""
    with from_thread.start_blocking_portal() as running:
        yield running


@pytest.fixture
def history(cluster: ControlPlane, portal: from_thread.BlockingPortal) -> Iterator[History]:
    """What happens to pods and PodGroups during the test."""
    upstream = proxying.upstream_of(cluster.kubeconfig)
    with portal.wrap_async_context_manager(histories.following(upstream)) as running:
        yield running


@pytest.fixture
def way_through(portal: from_thread.BlockingPortal, kubeconfig: Path) -> Iterator[Proxy]:
    """A proxy before the API server by which PodGroup deletes come to grief."""
    served = proxying.serving(proxying.upstream_of(kubeconfig), Plan(races.RULES))
    with portal.wrap_async_context_manager(served) as proxy:
        yield proxy


def fleets_of(cluster: ControlPlane, count: int) -> list[Fleet]:
    """For each way Deployments of one pod, and room for twice as many."""
    cluster.create_nodes(count=2, cpu=str(count))
    fleets = []
    for way in races.WAYS:
        cluster.create_namespace(way)
        names = [f"{way}-{number}" for number in range(count)]
        fleets.append(Fleet(api=cluster.api, way=way, names=names))
        fleets[-1].launch()
    return fleets


def ruling(cluster: ControlPlane, history: History) -> Verdict:
    """What is to be said of all that has happened until now."""

    def missing() -> set[tuple[str, int]]:
        return races.versions(cluster.api).items() ^ history.present().items()

    races.until_none(missing)
    return history.verdict()


@pytest.mark.parametrize(
    "at_work",
    [
        pytest.param(1, id="one daemon"),
        pytest.param(2, id="two at once", marks=pytest.mark.at_length),
    ],
)
def test_no_delete_hits_a_group_in_use(
    cluster: ControlPlane,
    history: History,
    way_through: Proxy,
    start: Start,
    tmp_path: Path,
    *,
    rounds: int,
    at_work: int,
) -> None:
    """Deployments go 1→0→1 while deletes are late, twice, overtaken or without an answer.

    In every second pass a daemon is killed and started anew. Each time every pod runs in a
    PodGroup that is there, and stays so; in the end no PodGroup is left. Two at once are what an
    election prevents, but for the last calls of who has led; here they go on all the time.
    """
    at_once = min(AT_ONCE_MAX, rounds // 2)
    chance = Random(SEED)
    fleets = fleets_of(cluster, at_once)
    kubeconfig = f"--kubeconfig={through(way_through, cluster, tmp_path)}"
    flags = (kubeconfig, daemons.ALONE, daemons.FOR_ALL, "--podgroup-grace=0s")
    running = [start(*flags) for _ in range(at_work)]

    def problems() -> list[str]:
        return [problem for fleet in fleets for problem in fleet.problems()]

    races.until_none(problems)
    for number in range(rounds // at_once):
        with races.racing(fleets, way_through, f"{SEED} {number}"):
            if number % 2:
                time.sleep(chance.uniform(*KILL_SECONDS))
                running[0].process.kill()
                running[0].process.wait()
                running = [*running[1:], start(*flags)]
        races.until_none(problems)
        races.until_quiet(way_through)
        assert problems() == []
    for fleet in fleets:
        fleet.end()
    races.until_none(lambda: sorted(races.versions(cluster.api)))
    races.until_quiet(way_through)
    found = ruling(cluster, history)
    tell(found, way_through, at_once)
    assert (found.hits, found.strays) == ((), ())
    assert [daemon.process.poll() for daemon in running] == [None] * at_work


@pytest.mark.at_length
def test_deletes_without_a_precondition_hit_groups_in_use(
    cluster: ControlPlane,
    history: History,
    way_through: Proxy,
    start: Start,
) -> None:
    """That the test above can fail: a keeper that deletes by name loses PodGroups in each way."""
    fleets = fleets_of(cluster, NAIVE_OF_EACH)
    start("--only=scheduler")

    def harmless() -> set[str]:
        hits = ruling(cluster, history).hits
        hit = [pod for harm in hits for pod in harm.pods]
        return {way for way in races.WAYS if not any(pod.startswith(way) for pod in hit)}

    def problems() -> list[str]:
        return [problem for fleet in fleets for problem in fleet.problems()]

    with naive(cluster, way_through):
        races.until_none(problems)
        for number in range(NAIVE_PASSES_MAX):
            with races.racing(fleets, way_through, f"{SEED} {number}", up_again_seconds=1):
                pass
            time.sleep(races.LATE_SECONDS)  # what the keeper sends again
            races.until_quiet(way_through)
            if not harmless():
                break
        assert harmless() == set()
        assert any("has no PodGroup" in problem for problem in problems())


@contextmanager
def naive(cluster: ControlPlane, proxy: Proxy) -> Iterator[None]:
    """A keeper of PodGroups that is at work for the time of the block."""
    link = Client(proxy.url, authority=cluster.authority.certificate_path)
    keeper = NaiveKeeper(plane=cluster, link=link)
    thread = Thread(target=keeper.run)
    thread.start()
    try:
        yield
    finally:
        keeper.ended.set()
        thread.join()
        link.close()


def through(proxy: Proxy, cluster: ControlPlane, folder: Path) -> Path:
    """A kubeconfig by which a daemon reaches the API server through the proxy."""
    path = folder / "proxied.kubeconfig"
    authority = cluster.authority.certificate_path
    return credentials.write_kubeconfig(path, url=proxy.url, authority=authority)


def tell(found: Verdict, proxy: Proxy, at_once: int) -> None:
    """How much there was to go wrong: in each way more than the deletes at the end."""
    sys.stdout.write(f"{found.made} PodGroups made, {found.deleted} deleted\n")
    for way in races.WAYS:
        answers = proxy.notes(races.deletes(way), What.ANSWERED)
        assert len({note.request for note in answers}) > at_once
        statuses = sorted(Counter(note.status for note in answers).items())
        sys.stdout.write(f"{way}: deletes by answer {dict(statuses)}\n")

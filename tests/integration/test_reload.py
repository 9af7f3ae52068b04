"""The configuration file of a running scheduler, changed as the kubelet does it."""

import time
from pathlib import Path

from sandbox.control_plane import ControlPlane
from tests.integration import daemons
from tests.integration.daemons import Start

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
IDLE = "actions: backfill\ntiers: [{plugins: [{name: gang}]}]\n"
PLACING = "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n"
BAD = "actions: allocat\ntiers: [{plugins: [{name: gnag}]}]\n"


def mount(folder: Path, text: str) -> Path:
    """Write the file as a mounted ConfigMap: file → ..data → a folder of this version."""
    version = folder / f"..{time.monotonic_ns()}"
    version.mkdir(parents=True)
    (version / "conf.yaml").write_text(text)
    link = folder / "..data_tmp"
    link.symlink_to(version.name)
    link.replace(folder / "..data")
    path = folder / "conf.yaml"
    if not path.is_symlink():
        path.symlink_to("..data/conf.yaml")
    return path


def test_a_good_file_is_in_force_at_once_and_a_bad_one_never(
    cluster: ControlPlane, start: Start, tmp_path: Path
) -> None:
    """In place of the last good one, a log line, a metric and an event."""
    cluster.create_nodes(count=1, cpu="4")
    folder = tmp_path / "mounted"
    path = mount(folder, IDLE)
    daemon = start(f"--scheduler-conf={path}")
    daemons.until(lambda: daemon.said("total.changed"), daemon)
    daemons.a_gang(cluster, "first", 2)
    time.sleep(1)
    assert daemons.nodes_of(cluster) == {}
    mount(folder, PLACING)
    daemons.until(lambda: daemon.said("configuration.reloaded"), daemon)
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == 2, daemon)
    mount(folder, BAD)
    daemons.until(lambda: daemon.said("configuration.rejected"), daemon)
    (line,) = daemon.said("configuration.rejected")
    assert len(line["problems"]) == 2
    daemons.a_gang(cluster, "second", 2)
    daemons.until(lambda: len(daemons.nodes_of(cluster)) == 4, daemon)
    daemons.until(
        lambda: told(cluster) == {"ConfigurationReloaded", "ConfigurationRejected"}, daemon
    )
    assert daemon.stop() == 0


def told(cluster: ControlPlane) -> set[str]:
    """Reasons of events about the default queue, which stands for a scheduler outside of pods."""
    return {
        each["reason"]
        for each in cluster.api.list(EVENTS)
        if (each["regarding"]["kind"], each["regarding"]["name"]) == ("Queue", "default")
    }


def test_a_file_that_is_bad_at_the_start_stops_it(
    cluster: ControlPlane, start: Start, tmp_path: Path
) -> None:
    """With all that is wrong with it."""
    del cluster
    daemon = start(f"--scheduler-conf={mount(tmp_path / 'mounted', BAD)}")
    assert daemon.process.wait(daemons.PATIENCE_SECONDS) == 1
    assert "allocat" in daemon.text()
    assert "gnag" in daemon.text()


def schedules(daemon: daemons.Daemon) -> bool:
    """Whether it leads as a scheduler; its controllers have a Lease of their own."""
    return any(line.get("process") != "controllers" for line in daemon.said("serving"))


def test_who_takes_over_with_another_configuration_says_so(
    cluster: ControlPlane, start: Start, tmp_path: Path
) -> None:
    """Before and after; and where that is forbidden, nobody leads until the annotation is gone."""
    path = f"{daemons.LEASES}/vscheduler"
    first = start(f"--scheduler-conf={mount(tmp_path / 'first', IDLE)}")
    daemons.until(lambda: first.said("serving"), first)
    conf = f"--scheduler-conf={mount(tmp_path / 'second', PLACING)}"
    second = start(conf, "--require-same-configuration")
    daemons.until(lambda: second.said("lease.other_configuration"), second)
    assert first.stop() == 0
    daemons.until(lambda: second.said("lease.problem"), second)
    assert not schedules(second)
    cluster.api.patch(path, {"metadata": {"annotations": {"vscheduler/configuration": None}}})
    daemons.until(lambda: schedules(second), second)
    third = start(f"--scheduler-conf={tmp_path / 'first' / 'conf.yaml'}")
    daemons.until(lambda: third.said("lease.other_configuration"), third)
    assert second.stop() == 0
    daemons.until(lambda: third.said("lease.configuration_changed"), third)
    events = EVENTS.replace("/default/", "/volcano-system/")
    daemons.until(
        lambda: [
            each for each in cluster.api.list(events) if each["reason"] == "ConfigurationChanged"
        ],
        third,
    )

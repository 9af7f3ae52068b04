"""The CRD of HyperNodes is installed while the scheduler runs, and is taken away again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox import control_plane
from sandbox.control_plane import ControlPlane
from tests import crd_cases
from tests.integration import daemons
from tests.integration.daemons import Daemon

CRD = Path(__file__).parents[2] / "crds" / "topology.volcano.sh_hypernodes.yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
NEAR = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
ANY: dict[str, Any] = {"type": "Node", "selector": {"regexMatch": {"pattern": "."}}}
EVERY_NODE = {"tier": 1, "members": [ANY]}
CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: network-topology-aware}]
"""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[ControlPlane, Daemon]]:
    """A cluster without the CRD, and a scheduler with its controllers."""
    conf = tmp_path / "scheduler.yaml"
    conf.write_text(CONFIGURATION)
    with control_plane.start() as plane:
        plane.create_nodes(count=2, cpu="4")
        plane.run_kubectl("delete", f"--filename={CRD}")
        daemon = Daemon(plane.kubeconfig, tmp_path / "log", f"--scheduler-conf={conf}")
        daemons.until(lambda: daemon.said("kopf.started"), daemon)
        yield plane, daemon
        assert daemon.stop() == 0


@pytest.mark.at_length
def test_gangs_that_must_be_near_wait_while_there_is_no_crd(
    running: tuple[ControlPlane, Daemon],
) -> None:
    """They say why, and whatever runs goes on; nobody else notices anything."""
    plane, daemon = running
    daemons.a_gang(plane, "near", 2, group=NEAR)
    daemons.until(lambda: waits_for_topology(plane, "near"), daemon)
    daemons.a_gang(plane, "any", 1)
    daemons.until(lambda: set(daemons.nodes_of(plane)) == {"any-0"}, daemon)
    plane.run_kubectl("create", f"--filename={CRD}")
    plane.run_kubectl("wait", "--for=condition=Established", f"--filename={CRD}")
    all_nodes = crd_cases.named("hypernodes", "all", spec=EVERY_NODE)
    plane.api.create(HYPER_NODES, all_nodes)
    bound = {"any-0", "near-0", "near-1"}
    daemons.until(lambda: set(daemons.nodes_of(plane)) == bound, daemon)
    daemons.until(lambda: counted(plane) == 2, daemon)
    plane.run_kubectl("delete", f"--filename={CRD}")
    daemons.a_gang(plane, "late", 2, group=NEAR)
    daemons.until(lambda: waits_for_topology(plane, "late"), daemon)
    daemons.a_gang(plane, "more", 1)
    daemons.until(lambda: set(daemons.nodes_of(plane)) == {*bound, "more-0"}, daemon)
    plane.run_kubectl("create", f"--filename={CRD}")
    plane.run_kubectl("wait", "--for=condition=Established", f"--filename={CRD}")
    plane.api.create(HYPER_NODES, all_nodes)
    daemons.until(lambda: {"late-0", "late-1"} <= set(daemons.nodes_of(plane)), daemon)
    daemons.until(lambda: counted(plane) == 2, daemon)


def waits_for_topology(plane: ControlPlane, group: str) -> bool:
    """Whether a PodGroup says that there is no topology."""
    told: Any = daemons.conditions(plane, group).get("Unschedulable", {})
    return told.get("reason") == "NetworkTopologyUnknown" and "no HyperNodes" in told["message"]


def counted(plane: ControlPlane) -> int | None:
    """How many nodes the HyperNode has, as its status says."""
    found: int | None = plane.api.get(f"{HYPER_NODES}/all").get("status", {}).get("nodeCount")
    return found

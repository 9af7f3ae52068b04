"""kube-scheduler as a judge: it filters, and never binds nor evicts."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox import client
from sandbox.client import Client
from sandbox.control_plane import ControlPlane
from sandbox.errors import TimedOut
from sandbox.processes import Supervisor
from tests.oracle import extender, kube_scheduler, manifests
from tests.oracle.extender import Extender
from tests.oracle.manifests import Document

PODS = "/api/v1/pods"
ANSWER_SECONDS = 60.0
LISTEN_SECONDS = 0.002
LOOK_SECONDS = 0.05
DAY = 24 * 3600

Verdict = frozenset[str]
"""Names of the nodes that take a pod."""


@dataclass(slots=True, kw_only=True)
class Judge:
    """A running kube-scheduler that can be asked about pods."""

    api: Client
    extender: Extender
    supervisor: Supervisor

    def ask(self, probes: Sequence[Document]) -> dict[str, Verdict]:
        """Which nodes take each of these pods, as things stand; the pods are there afterwards."""
        uids: dict[str, str] = {}

        def submit(probe: Document) -> None:
            uids[manifests.key(probe)] = self._submit(probe)

        client.in_parallel(submit, probes)
        self._wait_for_verdicts(uids)
        return {key: self.extender.seen.get(uid, frozenset()) for key, uid in uids.items()}

    def _submit(self, probe: Document) -> str:
        spec = {**probe["spec"], "schedulerName": manifests.ORACLE}
        asked = manifests.unmanaged({**probe, "spec": spec})
        return str(self.api.create(manifests.pods_path(probe), asked)["metadata"]["uid"])

    def _wait_for_verdicts(self, uids: Mapping[str, str]) -> None:
        """Until the extender was asked about each pod, or its condition says that no node is left.

        Looking at conditions costs the API server more than listening does.
        """
        began = time.monotonic()
        look = began + LOOK_SECONDS
        refused: set[str] = set()
        while missing := {key for key, uid in uids.items() if uid not in self.extender.seen}:
            if time.monotonic() > look:
                refused |= self._refused()
                look = time.monotonic() + LOOK_SECONDS
            if missing <= refused:
                return
            if time.monotonic() > began + ANSWER_SECONDS:
                self.supervisor.check()
                raise TimedOut(f"no verdict on {sorted(missing - refused)}")
            time.sleep(LISTEN_SECONDS)

    def _refused(self) -> set[str]:
        """Pods that filters leave no node: the extender isn't asked, their condition says it."""
        refused = set()
        for pod in self.api.list(PODS, fieldSelector=f"spec.schedulerName={manifests.ORACLE}"):
            for condition in pod["status"].get("conditions", ()):
                if condition["type"] == "PodScheduled" and condition["status"] == "False":
                    told = condition["reason"], condition.get("message")
                    assert condition["reason"] in {"Unschedulable", "SchedulingGated"}, told
                    refused.add(manifests.key(pod))
        return refused


@contextmanager
def start(plane: ControlPlane) -> Iterator[Judge]:
    """Run the judge beside a control plane, for the time of the block."""
    with (
        extender.listening() as listener,
        kube_scheduler.running(
            plane, lambda kubeconfig: configuration(kubeconfig, listener.url)
        ) as supervisor,
    ):
        yield Judge(api=plane.api, extender=listener, supervisor=supervisor)


def configuration(kubeconfig: Path, url: str) -> Mapping[str, Any]:
    """Profiles that look at all nodes, ask the extender, don't preempt, and try once."""
    return kube_scheduler.configuration(
        kubeconfig,
        percentageOfNodesToScore=100,
        podInitialBackoffSeconds=DAY,
        podMaxBackoffSeconds=DAY,
        profiles=[
            {
                "schedulerName": name,
                "plugins": {"multiPoint": {"disabled": [{"name": "DefaultPreemption"}]}},
            }
            for name in (manifests.ORACLE, manifests.ELDER)
        ],
        extenders=[
            {
                "urlPrefix": url,
                "filterVerb": extender.VERB,
                "nodeCacheCapable": True,
                "httpTimeout": "30s",
            }
        ],
    )

"""Who competes for a Lease: instances of ours in the test's own process, and kube-scheduler."""

import asyncio
import functools
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandbox import binaries
from sandbox.control_plane import ControlPlane
from tests import patience
from tests.integration import daemons
from vscheduler.cluster import leases
from vscheduler.cluster.http.connection import Access
from vscheduler.daemon.leader_election.api import LeaseStatus, Token
from vscheduler.daemon.leader_election.election_settings import Timing
from vscheduler.daemon.leader_election.elector import Terms
from vscheduler.daemon.leader_election.thread import ElectionThread, Outlets

NAMESPACE = "volcano-system"
LEASE = "contested"
PATH = f"{daemons.LEASES}/{LEASE}"
SHORT = Timing(duration_seconds=3.0, renew_deadline_seconds=2.0, retry_period_seconds=0.5)


class Ours:
    """An instance that stands for one Lease."""

    def __init__(
        self,
        access: Access,
        identity: str,
        *,
        timing: Timing = SHORT,
        namespace: str = NAMESPACE,
    ) -> None:
        self.identity = identity
        self.renewals: list[str] = []
        self.changes: list[LeaseStatus] = []
        opened = functools.partial(
            leases.opened, access, namespace, call_seconds=timing.call_seconds
        )
        self.elected = ElectionThread(
            [LEASE],
            Terms(identity=identity, namespace=namespace, timing=timing),
            opened,
            Outlets(
                on_change=lambda *lease_statuses: self.changes.append(lease_statuses[-1]),
                observe_renewal=lambda *renewal: self.renewals.append(renewal[-1]),
            ),
        )
        self._task = asyncio.create_task(self.elected.run())

    @property
    def token(self) -> Token | None:
        """While it holds the Lease."""
        return self.elected.held([LEASE]).get(LEASE)

    @property
    def standing(self) -> LeaseStatus:
        """How it stands with the Lease."""
        (standing,) = self.elected.lease_statuses()
        return standing

    async def gain(self) -> Token:
        """Its token, once it has the Lease."""
        await until(lambda: self.token)
        assert self.token is not None
        return self.token

    async def crash(self) -> None:
        """End without a word."""
        self._task.cancel()
        await asyncio.wait({self._task})

    async def release(self) -> None:
        """End as the daemon does."""
        await self.elected.release()
        await self._task


class KubeScheduler:
    """Kubernetes' own scheduler, in it for the Lease, or with pods of its own in mind."""

    def __init__(self, cluster: ControlPlane, output: Path, *, elect: bool = True) -> None:
        (program,) = binaries.find_or_build((binaries.SCHEDULER,)).values()
        flags = {
            **dict.fromkeys(
                ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"),
                cluster.kubeconfig,
            ),
            "secure-port": 0,
            "leader-elect": str(elect).lower(),
            "leader-elect-resource-name": LEASE,
            "leader-elect-resource-namespace": NAMESPACE,
            "leader-elect-lease-duration": "3s",
            "leader-elect-renew-deadline": "2s",
            "leader-elect-retry-period": "500ms",
        }
        with output.open("ab") as log_file:
            self.process = subprocess.Popen(  # noqa: S603 - our own program
                [str(program), *(f"--{flag}={value}" for flag, value in flags.items())],
                stderr=log_file,
                stdout=log_file,
            )

    def end(self, number: signal.Signals) -> None:
        """Send it this, and wait until it is gone."""
        self.process.send_signal(number)
        self.process.wait(patience.PROCESSES_SECONDS)


def spec(cluster: ControlPlane) -> dict[str, Any]:
    """What the Lease says; empty where there is none."""
    found = cluster.api.find(PATH)
    return {} if found is None else dict(found.get("spec") or {})


async def until(done: Callable[[], object]) -> None:
    """Wait until other processes, or threads, make something so."""
    await patience.until(done, seconds=patience.PROCESSES_SECONDS, every_seconds=0.05)

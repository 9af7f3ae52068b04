"""Decisions about claims: which volumes pods need before they can start, and what is given back.

Pods of a job are bound only when all their claims are. A cycle that has nodes for a job therefore
first asks for the volumes (PrepareClaims), and binds the pods in a later cycle. What was asked for
in vain is given back (ReleaseClaim, ReleaseVolume).
"""

from typing import TypeAlias

import msgspec

from vscheduler.core.model.jobs import JobId, Task


class ClaimBinding(msgspec.Struct, frozen=True, kw_only=True):
    """A claim that must be bound before a pod may start on a node."""

    namespace: str
    name: str
    uid: str
    volume: str | None
    """The existing volume chosen for the claim; None: a volume is to be provisioned."""
    node: str
    """Name of the pod's node."""
    requested: bool = False
    """Whether the API server shows this choice already: the volume's spec.claimRef, or the claim's
    annotation volume.kubernetes.io/selected-node."""

    @property
    def key(self) -> str:
        """The claim as `namespace/name`."""
        return f"{self.namespace}/{self.name}"


class PrepareClaims(msgspec.Struct, frozen=True, kw_only=True):
    """Decision to ask for the volumes of pods that wait on their nodes until these are bound."""

    job: JobId
    pods: tuple[Task, ...]
    """The pods of the job that wait for claims, whether asked for now or before."""
    bindings: tuple[ClaimBinding, ...]
    """What the API server doesn't show yet, sorted by claim."""


class ReleaseClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Decision to withdraw the selected node of a claim that isn't bound and that no pod waits for.

    Kubernetes: the annotation volume.kubernetes.io/selected-node.
    """

    namespace: str
    name: str
    uid: str
    node: str
    """The selected node; empty if a provisioner has removed it already."""

    @property
    def key(self) -> str:
        """The claim as `namespace/name`."""
        return f"{self.namespace}/{self.name}"


class ReleaseVolume(msgspec.Struct, frozen=True, kw_only=True):
    """Decision to withdraw a volume from a claim that isn't bound to it and has no waiting pod.

    Kubernetes: spec.claimRef.
    """

    name: str
    uid: str
    claim: str
    """The claim as `namespace/name`."""
    reserved: bool
    """Whether the volume was reserved for this claim by name before, and stays so."""


Release: TypeAlias = ReleaseClaim | ReleaseVolume


class VolumeWait(msgspec.Struct, frozen=True, kw_only=True):
    """How far the volumes of a job are, as part of a reason."""

    bound: int
    """How many of the claims of the waiting pods are bound."""
    claims: int
    """How many claims the waiting pods have."""
    claim: str
    """The claim that has been waited for the longest, as `namespace/name`."""
    source: str
    """The provisioner, or the volume that is to be bound."""
    node: str = ""
    since: float = 0.0
    """Seconds since the epoch."""
    refusal: str = ""
    """What the API server said when it refused to write the request."""
    pause: int = 0
    """How long no volume is asked for after attempts that failed, in seconds. 0 while an attempt
    runs; then node and time are those of the attempt."""


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for to have a claim bound."""

    node: str
    volume: str | None
    """The existing volume; None: a volume is to be provisioned."""
    since: float
    """Seconds since the epoch."""


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """For how long a claim is not asked for on a node again, or on any node."""

    node: str
    """Empty: any node."""
    until: float
    """Seconds since the epoch."""
    seconds: int
    """How long the pause is in all."""


class ClaimAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the attempts to have a claim bound, until it is."""

    uid: str
    """UID of the claim."""
    request: ClaimRequest | None = None
    """The attempt under way."""
    failed: ClaimRequest | None = None
    """The last attempt that failed, as the API server shows it."""
    failures: int = 0
    pauses: tuple[Pause, ...] = ()

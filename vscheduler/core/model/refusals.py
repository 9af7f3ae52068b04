"""Nodes whose kubelets refuse pods."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A node whose kubelet refused a pod of ours a moment ago: for a while no others are bound
    there. It isn't lost: shares are computed with it.
    """

    reason: str
    """The kubelet's: `OutOfcpu`."""
    seconds: int
    """How long the node is left alone; longer after each refusal in a row."""
    until: float
    """Seconds since the epoch."""

"""Which configuration and which nodes a scheduler has, for the order of its jobs and for remedies:
as flags say, else as its Deployment says, else the built-in configuration and all nodes.
"""

from collections.abc import Callable, Collection
from functools import cached_property

import msgspec

from vscheduler.cli import deployed
from vscheduler.cli.deployed import Found
from vscheduler.cli.queue.cluster_client import Cluster
from vscheduler.core.config.policy import Policy
from vscheduler.daemon.configuration import Loaded
from vscheduler.mirror.wording import phrases

Labels = tuple[tuple[str, str], ...]


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """What of a scheduler's flags and configuration decides."""

    policy: Policy
    nodes: Labels = ()
    """The labels of which the scheduler's nodes have one; empty: all nodes."""
    default_queue: str = "default"


class Configured:
    """How each scheduler is configured. The cluster is asked once, and only if it matters."""

    def __init__(self, look: Callable[[], Found], loaded: Loaded, nodes: Labels) -> None:
        self._look = look
        self._loaded = loaded
        self._nodes = nodes

    @cached_property
    def _found(self) -> Found:
        return self._look()

    def of(self, scheduler: str) -> Configuration:
        """Return how this scheduler is configured."""
        if self._loaded.path:
            return Configuration(policy=self._loaded.policy, nodes=self._nodes)
        found = self._found.schedulers.get(scheduler)
        if found is None:
            return Configuration(policy=self._loaded.policy, nodes=self._nodes)
        return Configuration(
            policy=found.policy,
            nodes=self._nodes or found.settings.node_selector,
            default_queue=found.settings.default_queue,
        )

    def notes(self, schedulers: Collection[str]) -> list[str]:
        """Return that the built-in configuration is assumed for these schedulers, if it is."""
        if self._loaded.path:
            return []
        unknown = sorted(set(schedulers) - self._found.schedulers.keys() - {""})
        if not unknown:
            return []
        why = "".join(f" ({problem})" for problem in self._found.problems[:1])
        said = "Places assume the built-in configuration, because that of"
        what = "can't be read; give it with --scheduler-conf"
        return [f"{said} {phrases.listed(unknown)} {what}{why}."]


def of_flags(cluster: Cluster, loaded: Loaded, nodes: Labels) -> Configured:
    """Return how schedulers of this cluster are configured; `loaded` and `nodes` are what flags
    say, and take precedence.
    """
    return Configured(lambda: deployed.read(cluster), loaded, nodes)

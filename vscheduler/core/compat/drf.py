"""VolcanoDrf: plugin drf with Volcano's hierarchy of queues."""

from collections.abc import Collection, Sequence
from typing import ClassVar

from vscheduler.core.model import decisions, jobs, resources
from vscheduler.core.plugins import drf


class VolcanoDrf(drf.Drf):
    """Merges queues of the same path into one branch, and judges each victim alone."""

    flat_tree: ClassVar[bool] = True

    def share_after(
        self, claimant: jobs.Task, claimed: resources.Vector, victims: Sequence[jobs.Task]
    ) -> decisions.ShareAfter | None:
        """Abstain: no shares are compared for a whole plan."""
        del claimant, claimed, victims
        return None

    def _richer(self, mine: str, candidates: Sequence[jobs.Task]) -> Collection[str]:
        """Return none: only shares without the pod are compared, and queues that are one branch
        have no two to compare.
        """
        del mine, candidates
        return ()

    def _giving_way(
        self, mine: str, candidates: Sequence[jobs.Task], richer: Collection[str]
    ) -> Sequence[jobs.Task]:
        """Return the pods whose branch still comes after the claimant's without them, each as if
        no other pod went (Volcano: drf reclaimFn).
        """
        del richer
        tree = self._tree
        assert tree is not None
        victims = []
        for task in candidates:
            self._shift(task, -1)
            if tree.key(mine) < tree.key(self._session.job_states[task.job].job.queue):
                victims.append(task)
            self._shift(task, 1)
        return victims

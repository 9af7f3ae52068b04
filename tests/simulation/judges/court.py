"""One pass over a history, with every judge of what must always hold."""

from collections.abc import Iterable, Iterator, Sequence

from tests.simulation.judges.cluster import Cluster
from tests.simulation.judges.history import Change, Finding, Settings


class Judge:
    """A rule: sees each change with the cluster before and after it."""

    rule = ""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def before(self, change: Change, cluster: Cluster) -> Iterable[Finding]:
        """Look at a change and at the cluster that it met."""
        del change, cluster
        return ()

    def after(self, change: Change, cluster: Cluster) -> Iterable[Finding]:
        """Look at a change and at the cluster that it left."""
        del change, cluster
        return ()

    def finish(self, at: float, cluster: Cluster) -> Iterable[Finding]:
        """Look at what is still open when the history ends."""
        del at, cluster
        return ()

    def left(self, at: float, process: str, cluster: Cluster) -> Iterable[Finding]:
        """Look at what a process leaves behind that ended when it was told to, undisturbed."""
        del at, process, cluster
        return ()

    def finding(self, at: float, message: str) -> Finding:
        """A violation of this rule."""
        return Finding(at=at, rule=self.rule, message=message)


class Court:
    """Judges that see a history as it grows."""

    def __init__(self, judges: Sequence[Judge], cluster: Cluster) -> None:
        self.cluster = cluster
        self._judges = judges

    def see(self, changes: Iterable[Change]) -> Iterator[Finding]:
        """Judge these changes, which follow those seen before."""
        for change in changes:
            for judge in self._judges:
                yield from judge.before(change, self.cluster)
            self.cluster.apply(change)
            for judge in self._judges:
                yield from judge.after(change, self.cluster)

    def left(self, at: float, process: str) -> Iterator[Finding]:
        """Judge what a process has left behind."""
        for judge in self._judges:
            yield from judge.left(at, process, self.cluster)

    def finish(self, at: float) -> Iterator[Finding]:
        """Judge what was still open."""
        for judge in self._judges:
            yield from judge.finish(at, self.cluster)

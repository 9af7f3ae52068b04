"""A candidate for a Lease, on a store in memory, in a time of its own."""

from tests.unit.daemon import lease_store
from tests.unit.daemon.lease_store import Store
from vscheduler.daemon.leader_election import state_machine
from vscheduler.daemon.leader_election.api import LeaseStatus
from vscheduler.daemon.leader_election.election_settings import Timing
from vscheduler.daemon.leader_election.elector import Change, Elector, LeaseTerm, Outlets, Terms

LEASE = "volcano-online"
TIMING = Timing()


class Bench:
    """One candidate whose time passes as told, and what it says."""

    def __init__(
        self, store: Store, identity: str = "we", *, same_configuration: bool = False
    ) -> None:
        self.now = 1000.0
        self.store = store
        self.changes: list[Change] = []
        self.renewals: list[str] = []
        self.doubts: list[LeaseTerm] = []
        self.configuration = ""
        terms = Terms(
            identity=identity,
            namespace=lease_store.NAMESPACE,
            timing=TIMING,
            clock=lambda: self.now,
            wall_time=lambda: f"at {self.now}",
            configuration=lambda _: self.configuration,
            same_configuration=same_configuration,
        )
        outlets = Outlets(
            changed=self.changes.append,
            renewed=lambda *renewal: self.renewals.append(renewal[-1]),
            doubted=lambda *doubt: self.doubts.append(doubt[-1]),
            failed=lambda *_: None,
        )
        self.candidate = Elector(LEASE, terms, outlets)

    async def live(self, seconds: float) -> None:
        """Make all calls that are due in this time; each takes none."""
        end = self.now + seconds
        while True:
            due = state_machine.next_at(self.candidate._state, TIMING, chance=0.5)
            if due > end:
                break
            self.now = max(self.now, due)
            self.store.configuration = self.configuration
            await self.candidate.step(self.store)
        self.now = end

    @property
    def term(self) -> LeaseTerm:
        """What was gained last."""
        return [change.term for change in self.changes if change.term][-1]

    @property
    def status(self) -> LeaseStatus:
        """What was said last."""
        return self.changes[-1].status

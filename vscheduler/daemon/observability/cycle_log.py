"""Log of cycles: decisions, changes of the total, and problems."""

import time
from collections import Counter
from collections.abc import Callable, Mapping

import structlog

from vscheduler.mirror import queue_status
from vscheduler.mirror.decode import quantities
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import CycleResult, Exclusion
from vscheduler.model.queues import QueueProblem
from vscheduler.model.snapshot import Refused

log = structlog.get_logger(__name__)


LINE_SECONDS = 1.0
"""Between two lines about decisions: of pods that come one by one, each has a cycle."""


class CycleLog:
    """Logs what cycles decide, and problems that changed since the last cycle."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._line_at = float("-inf")
        self._sums: Counter[str] = Counter()
        """Cycles that decided something since the last line, and what they decided."""
        self._last: Mapping[str, object] = {}
        """More about the last one of them."""
        self._total: Mapping[str, float] = {}
        self._excluded: tuple[Exclusion, ...] = ()
        self._set_aside: set[QueueProblem] = set()
        self._refused: Mapping[str, Refused] = {}

    def log_cycle(
        self,
        result: CycleResult,
        *,
        cycle: int,
        bound: int,
        parts: Mapping[str, float],
    ) -> None:
        """Log a cycle with the number of binds sent, and the duration of its parts in seconds.

        Cycles that decide something within LINE_SECONDS have a line together, see `flush`.
        """
        self._log_total(result)
        for fault in result.faults:
            place = {"place": fault.place} if fault.place else {}
            log.error(
                "plugin.failed", plugin=fault.plugin, hook=fault.hook, error=fault.error, **place
            )
        self._log_queues(result)
        about = {
            "cycle": cycle,
            "waiting": sum(group.reason is not None for group in result.changeable),
            "finished": result.finished,
            **{f"{part}_ms": round(seconds * 1000, 1) for part, seconds in parts.items()},
        }
        if bound or result.evicts:
            self._sums.update(cycles=1, bound=bound, evicted=len(result.evicts))
            self._last = about
            self.flush()
        else:
            log.debug("cycle.done", cycles=1, bound=0, evicted=0, **about)

    def flush(self, *, at_once: bool = False) -> None:
        """Log decisions without a line, once the last line is LINE_SECONDS old, or at once."""
        now = self._clock()
        if self._sums and (at_once or now >= self._line_at + LINE_SECONDS):
            log.info("cycle.done", **self._sums, **self._last)
            self._sums.clear()
            self._line_at = now

    def log_refusals(self, refused: Mapping[str, Refused]) -> None:
        """Log nodes newly avoided after a kubelet's refusal, or avoided for longer."""
        for name, each in refused.items():
            if self._refused.get(name) != each:
                log.warning("node.refused", node=name, reason=each.reason, seconds=each.seconds)
        self._refused = refused

    def _log_total(self, result: CycleResult) -> None:
        if (result.total, result.excluded) == (self._total, self._excluded):
            return
        self._total, self._excluded = result.total, result.excluded
        log.info(
            "total.changed",
            total=quantities.format_readable(result.total),
            nodes_left_out=queue_status.left_out(result.excluded),
        )

    def _log_queues(self, result: CycleResult) -> None:
        """Log queues newly excluded from scheduling, and queues whose problem was fixed."""
        problems = {queue.problem for queue in result.queues if queue.problem is not None}
        for problem in sorted(problems - self._set_aside, key=str):
            message = sentences.queue_problem(problem)
            log.warning("queue.set_aside", queue=problem.queue, message=message)
        for problem in sorted(self._set_aside - problems, key=str):
            log.info("queue.put_right", queue=problem.queue)
        self._set_aside = problems

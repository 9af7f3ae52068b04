"""Tdm: time division multiplexing, nodes lent to batch work at certain times of the day.

Volcano: plugins/tdm. A node with label volcano.sh/revocable-zone takes only preemptable pods, and
only while the window of the named zone is open. After the window closes, action shuffle evicts the
pods, a few at a time.
"""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from vscheduler.core.api.contracts import Argument, FilterResult, Key, NodeView, Plugin, Session
from vscheduler.core.api.depends import On, depends_on
from vscheduler.core.api.views import JobState
from vscheduler.model import durations
from vscheduler.model.decisions import Reason, ReasonCode
from vscheduler.model.jobs import Job, PodClass, Task, TaskId, TaskStatus
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.model.refusals import Refusal, RefusalCode

ZONE = "volcano.sh/revocable-zone"
"""Label of a node: the zone. Hint of a pod: `*`, any zone."""

LEAST_RUNNING = "volcano.sh/jdb-min-available"
MOST_MISSING = "volcano.sh/jdb-max-unavailable"
"""Annotations of a PodGroup: a number of pods, or a percentage such as 30%. If both are present,
the first counts (Volcano: JobInfo.extractBudget)."""

PREFIX = "tdm.revocable-zone."
PERIOD = "tdm.evict.period"
OFFSET = "tdm.utc-offset"

ACTIVE_SCORE = 100.0
DAY_SECONDS = 86_400
_PODS = re.compile(r"(-?[0-9]{1,10})(%?)", re.ASCII)
TRUE_TEXTS = frozenset({"1", "t", "T", "true", "TRUE", "True"})
"""Texts that mean true in an annotation (Go: strconv.ParseBool)."""

CLOSED = Refusal(RefusalCode.ZONE_CLOSED)
RESERVED = Refusal(RefusalCode.ZONE_RESERVED)


class Window(msgspec.Struct, frozen=True):
    """A time of every day, in seconds since midnight; all day if both ends are equal."""

    start: int
    end: int

    def open(self, second: float) -> bool:
        """Whether the window is open at this second of the day.

        A window ending before its start spans midnight.
        """
        if self.start < self.end:
            return self.start <= second < self.end
        return second >= self.start or second < self.end

    def changes(self) -> tuple[int, ...]:
        """Return the seconds of the day at which the window may open or close."""
        return (self.start, self.end) if self.start != self.end else ()


def window(text: str, kind: type[Window] = Window) -> Window:
    """Parse `10:00-21:00`; raise ValueError for any other text."""
    start, dash, end = text.strip().partition("-")
    if not dash:
        raise ValueError(f"{text!r} is no time of the day such as 10:00-21:00")
    return kind(_second_of_day(start), _second_of_day(end))


def offset(text: str) -> int:
    """Parse `+02:00` or `-3:30`, how far a clock is ahead of UTC, into seconds.

    Raises ValueError for any other text.
    """
    sign, rest = text[:1], text[1:]
    if sign not in ("+", "-"):
        raise ValueError(f"{text!r} is no offset from UTC such as +02:00")
    seconds = _second_of_day(rest)
    return seconds if sign == "+" else -seconds


def _second_of_day(text: str) -> int:
    """Parse a time such as `9:30` into seconds since midnight."""
    hour, colon, minute = text.partition(":")
    digits = hour.isdecimal() and minute.isdecimal() and len(hour) <= 2 and len(minute) == 2
    if not (colon and digits) or int(hour) > 23 or int(minute) > 59:
        raise ValueError(f"{text!r} is no time such as 9:30")
    return int(hour) * 3600 + int(minute) * 60


def part_of(text: str, count: int) -> int | None:
    """Return the number in `3`, or `30%` of the count, rounded up; None for any other text."""
    found = _PODS.fullmatch(text)
    if found is None:
        return None
    number = int(found[1])
    return -(-number * count // 100) if found[2] else number


class Tdm(Plugin):
    """Revocable zones, each with a window.

    Pods that mustn't be evicted stay out of zones. Outside of zones, such pods may preempt
    preemptable pods.
    """

    name = "tdm"
    arguments: ClassVar[Mapping[str, Argument]] = {
        f"{PREFIX}*": Argument(str, "", parse=window),
        PERIOD: Argument(str, "1m", parse=durations.seconds),
        OFFSET: Argument(str, "+00:00", parse=offset),
    }
    window_type: ClassVar[type[Window]] = Window
    """The class that represents a zone's time of the day."""

    def open(self, session: Session) -> None:
        """Determine which zones are open now, and request a cycle for when that changes."""
        self._session = session
        layout = session.snapshot.nodes.layout
        self._rows = layout.rows
        column, codes = layout.label(ZONE)
        names: list[str] = ["", *codes]  # codes count up from 0; -1 is no label
        self._zones = [names[code + 1] for code in column.tolist()]
        windows = {
            name.removeprefix(PREFIX): window(str(text), self.window_type)
            for name, text in self._arguments.items()
            if name.startswith(PREFIX)
        }
        now = session.snapshot.now
        second = (now + offset(str(self.argument(OFFSET)))) % DAY_SECONDS
        active = {name for name, each in windows.items() if each.open(second)}
        self._open_zones = active
        self._closed_zones = windows.keys() - active
        for each in windows.values():
            for change in each.changes():
                session.wake(now + ((change - second) % DAY_SECONDS or DAY_SECONDS))
        self._lent = np.array([bool(zone) for zone in self._zones], dtype=np.bool_)
        self._active = np.array([zone in active for zone in self._zones], dtype=np.bool_)
        self._scores = np.where(self._active, ACTIVE_SCORE, 0.0)

    @depends_on(On.CLASS | On.NODE | On.TIME)
    def filter_nodes(self, task: Task, nodes: NodeView) -> Sequence[FilterResult]:
        """Refuse nodes in closed or unknown zones, and all zones for pods that aren't revocable.

        Nodes outside of zones always pass.
        """
        if not self._lent.any():
            return ()
        results = [FilterResult(CLOSED, nodes.of(self._active | ~self._lent))]
        if not _revocable(task):
            results.append(FilterResult(RESERVED, nodes.of(~self._lent)))
        return results

    @depends_on(On.CLASS | On.NODE | On.TIME)
    def class_nodes(self, pod_class: PodClass, layout: NodeLayout) -> Mask:
        """Return nodes outside of zones; for revocable pods, nodes of open zones as well."""
        column, codes = layout.label(ZONE)
        free = [
            not zone or (ZONE in pod_class.hints and zone in self._open_zones) for zone in codes
        ]
        mask: Mask = np.array([*free, True], dtype=np.bool_)[column]
        return mask

    @depends_on(On.CLASS | On.NODE | On.TIME)
    def score_nodes(self, task: Task, nodes: NodeView) -> NDArray[np.float64]:
        """Prefer nodes of open zones for revocable pods."""
        if not _revocable(task):
            return np.zeros(nodes.size)
        return nodes.of(self._scores)

    @depends_on(On.JOB)
    def job_key(self, state: JobState) -> Key:
        """Return jobs that aren't preemptable first."""
        return 1 if _job_preemptable(state.job) else 0

    @depends_on(On.JOB)
    def job_valid(self, state: JobState) -> Reason | None:
        """Return a reason if a budget annotation can't be read.

        Otherwise no pod of the job would be protected, or every pod.
        """
        for name in (LEAST_RUNNING, MOST_MISSING):
            text = state.job.annotations.get(name)
            if text and part_of(text, 1) is None:
                return Reason(
                    code=ReasonCode.BAD_SETTING,
                    queue=state.job.queue,
                    tasks=state.job.task_count,
                    minimum=state.job.min_member,
                    subject=(
                        f"annotation {name}: {durations.shown(text)} is neither a number of "
                        f"pods nor a percentage, such as 3 or 30%"
                    ),
                )
        return None

    @depends_on(On.JOB)
    def job_pipelined(self, state: JobState) -> bool:
        """Whether the minimum has resources, roles aside (Volcano: JobInfo.IsPipelined)."""
        placed = state.ready_tasks + state.waiting_tasks + state.pending_best_effort
        return placed >= state.job.min_member

    def job_starving(self, state: JobState) -> bool:
        """Whether a job that isn't preemptable has pods without a place."""
        return not _job_preemptable(state.job) and state.counts[TaskStatus.PENDING] > 0

    @depends_on(On.PREEMPTOR | On.VICTIM)
    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return preemptable pods outside of zones, as many of each job as its budget allows.

        Preemptors that are preemptable themselves get none. Volcano: tdm preemptableFn.
        """
        if preemptor.preemptable or _revocable(preemptor):
            return []
        asked = [
            task
            for task in candidates
            if task.preemptable and task.status is TaskStatus.RUNNING
            if task.node in self._rows and not self._zones[self._rows[task.node]]
        ]
        return self._bearable(asked, lambda task: task.job)

    def shuffle_victims(self, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return pods in closed zones, within the budgets of their jobs, once in a period.

        Volcano: tdm victimsFn.
        """
        zones = {
            task.uid: self._zones[self._rows[task.node]]
            for task in candidates
            if task.preemptable and task.node in self._rows
            if self._zones[self._rows[task.node]] in self._closed_zones
        }
        if not zones:
            return []
        now, period = self._session.snapshot.now, self.seconds(PERIOD)
        last = self._session.snapshot.carried.shuffled_at
        if last is not None and last + period > now:
            self._session.wake(last + period)
            return []
        self._session.wake(now + period)
        return self._going(zones, candidates)

    def _going(self, zones: Mapping[TaskId, str], candidates: Sequence[Task]) -> Sequence[Task]:
        """Return the pods in closed zones, by `zones`, to be evicted now.

        Each job loses as many pods as its budget allows.
        """
        named = [task for task in candidates if task.uid in zones]
        return self._with_gangs(self._bearable(named, lambda task: task.job), candidates)

    def _bearable(self, tasks: Sequence[Task], group: Callable[[Task], Hashable]) -> list[Task]:
        """Return the first tasks of each group, within the budget of the group's job."""
        left: dict[Hashable, int] = {}
        chosen = []
        for task in tasks:
            key = group(task)
            if key not in left:
                left[key] = self._budget(self._session.job_states[task.job])
            if left[key] > 0:
                left[key] -= 1
                chosen.append(task)
        return chosen

    def _budget(self, state: JobState) -> int:
        """Return how many pods the job can spare now, by annotation; 1 without annotations.

        Volcano: tdm getMaxPodEvictNum.
        """
        job, running = state.job, state.counts[TaskStatus.RUNNING]
        least, most = job.annotations.get(LEAST_RUNNING), job.annotations.get(MOST_MISSING)
        if least:
            return self._spare(running, part_of(least, job.task_count))
        if most and least is None:
            finished = state.counts[TaskStatus.SUCCEEDED] + state.counts[TaskStatus.FAILED]
            missing = job.task_count - finished - running
            return (part_of(most, job.task_count) or 0) - missing
        return 1

    def _spare(self, running: int, minimum: int | None) -> int:
        """Return how many running pods are above the minimum, 0 for an unreadable minimum."""
        return running - (running if minimum is None else minimum)

    def _with_gangs(self, chosen: Sequence[Task], candidates: Sequence[Task]) -> list[Task]:
        """Return the chosen pods, and all pods of a chosen rigid gang.

        A gang is rigid if it has no budget annotation and can't spare a single pod. Chosen one by
        one, its pods would stay in a closed zone for ever.
        """
        rigid = {
            task.job
            for task in chosen
            if not {LEAST_RUNNING, MOST_MISSING}
            & self._session.job_states[task.job].job.annotations.keys()
            if not self._session.job_states[task.job].spares(task)
        }
        named = {task.uid for task in chosen}
        return [task for task in candidates if task.uid in named or task.job in rigid]


def _revocable(task: Task) -> bool:
    """Whether the pod may use nodes of zones."""
    return ZONE in task.pod_class.hints


def _job_preemptable(job: Job) -> bool:
    """Whether the job is preemptable (Volcano: JobInfo.extractPreemptable)."""
    return job.preemptable in TRUE_TEXTS

"""Instances of the real daemon, each in a simulated process that is started anew when it ends."""

import asyncio
import logging
import random
from collections import deque
from collections.abc import MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import structlog

from tests.simulation.judges.view_rules import View
from tests.simulation.kernel.loops import SimLoop
from tests.simulation.kernel.network import Network
from tests.simulation.kernel.processes import Clock, Process
from tests.simulation.kernel.threads import Machine
from vscheduler.core.config import policy
from vscheduler.daemon import application, configuration, settings
from vscheduler.daemon.liveness import signals
from vscheduler.daemon.process import KopfEndedError
from vscheduler.daemon.settings import Given

RESTART_SECONDS = (1.0, 20.0)
OVERDUE = 1
"""The status of a process that is still there after the time for a shutdown."""
OVERDUE_SECONDS = 1.0
"""So soon after it went on, a process that had stood still may find that its time is over."""
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{{name: here, cluster: {{server: "http://10.0.0.1:80"}}}}]
users: [{{name: here, user: {{tokenFile: {token}}}}}]
contexts: [{{name: here, context: {{cluster: here, user: here}}}}]
"""

FAILURES = ("work.failed", "cycle.dropped")
"""Log events that tell of an unexpected exception."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A log event."""

    at: float
    process: str
    event: str
    fields: dict[str, Any]


class Lines:
    """In place of the thread that writes log lines."""

    dropped = 0

    def flush(self, seconds: float) -> bool:
        """Nothing waits."""
        del seconds
        return True


class Log:
    """The last log events of all processes."""

    def __init__(self, machine: Machine, most: int = 2000) -> None:
        self._machine = machine
        self.lines: deque[Line] = deque(maxlen=most)
        self.failures: list[Line] = []
        """Exceptions that nobody expected, and that a process survived."""
        structlog.configure(processors=[self._keep], cache_logger_on_first_use=False)
        logging.getLogger().handlers[:] = [_Handler(self)]

    def add(self, event: str, fields: dict[str, Any]) -> None:
        """Keep an event of the process that runs now."""
        kernel = self._machine.kernel
        process = self._machine.process.name if kernel.current else "kernel"
        line = Line(at=kernel.moment, process=process, event=event, fields=fields)
        self.lines.append(line)
        if event in FAILURES:
            self.failures.append(line)

    def _keep(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> Any:
        del logger, method
        name = str(event.pop("event", ""))
        self.add(name, dict(event))
        raise structlog.DropEvent


class _Handler(logging.Handler):
    """Takes what libraries log."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        self._log.add(record.name, {"message": record.getMessage()})


class Instance:
    """One replica: a process, then its successor, and so on."""

    def __init__(
        self,
        machine: Machine,
        name: str,
        net: Network,
        folder: Path,
        *,
        seed: str,
        schedulers: Sequence[str],
        user: str,
        flags: dict[str, Any] | None = None,
        plugins: Sequence[str] = (),
    ) -> None:
        """`plugins` come beside those of the built-in configuration."""
        self.name = name
        self.starts = 0
        self.process: Process | None = None
        self.clock = Clock(machine.kernel)
        self.ends: list[tuple[float, str, int, list[BaseException]]] = []
        """When which process ended, with what status, and what had gone wrong in it."""
        self._kernel = machine.kernel
        self._net = net
        self._seed = seed
        self._chance = random.Random(f"{seed}/{name}/restarts")
        self._user = user
        self._tokens = 0
        self._token = token = folder / f"{name}.token"
        token.write_text(user)
        kubeconfig = folder / f"{name}.kubeconfig"
        kubeconfig.write_text(KUBECONFIG.format(token=token))
        given = Given(scheduler_name=tuple(schedulers), kubeconfig=str(kubeconfig), **(flags or {}))
        self._settings = settings.check(given)
        self._loaded = configuration.load(_configured(folder / f"{name}.yaml", plugins))

    def renew_token(self) -> tuple[str, int]:
        """Write a new token to the disk; return its user and its number."""
        self._tokens += 1
        self._token.write_text(f"{self._user}#{self._tokens}")
        return self._user, self._tokens

    def view(self) -> View | None:
        """What its process believes about the cluster; None without a process that schedules."""
        here = self.process is not None and self.process.mirror is not None
        if not here or not self._settings.schedules:
            return None
        assert self.process is not None
        assert self.process.mirror is not None
        mirror = self.process.mirror
        shot = mirror.snapshot(self._kernel.now())
        names, columns = shot.nodes.layout.names, shot.space.names
        return View(
            process=self.process.name,
            allocatable=_by_node(names, columns, shot.nodes.allocatable),
            used=_by_node(names, columns, shot.nodes.used),
            weights={name: queue.weight for name, queue in shot.queues.items()},
            minima={job.id: job.min_member for job in shot.jobs},
            pods={job.id: [task.uid for task in job.tasks] for job in shot.jobs},
            assumed=mirror.assumed,
            releasing=_by_node(names, columns, shot.nodes.releasing),
        )

    def start(self) -> None:
        """Start a process."""
        self.starts += 1
        name = f"{self.name}-{self.starts}"
        process = Process(
            self._kernel,
            name,
            self._net,
            self.clock,
            host=self.name,
            seed=self._seed,
            on_end=self._ended,
        )
        self.process = process
        process.start(lambda: self._main(process))

    def _main(self, process: Process) -> None:
        loop = SimLoop(process)
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._run())

    async def _run(self) -> None:
        """As the command does, whose handlers of signals are there before all else."""
        signals.leave_at_once()
        with suppress(KopfEndedError):  # logged, and the process is started anew
            await application.run(self._settings, self._loaded, Lines())  # type: ignore[arg-type]

    def _ended(self, process: Process, status: int) -> None:
        # A shutdown is given a time by the clock; whoever stood still meanwhile can't keep to it.
        overdue = self._kernel.moment - process.went_on_at < OVERDUE_SECONDS
        errors, status = process.errors, 0 if status == OVERDUE and overdue else status
        self.ends.append((self._kernel.moment, process.name, status, errors))
        self.process = None
        self._kernel.after(self._chance.uniform(*RESTART_SECONDS), self.start)


def _by_node(names: Sequence[str], columns: Sequence[str], table: Any) -> dict[str, dict[str, int]]:
    return {
        name: dict(zip(columns, row, strict=True))
        for name, row in zip(names, table.tolist(), strict=True)
    }


def _configured(path: Path, plugins: Sequence[str]) -> str:
    """Write the built-in configuration with these plugins in a tier more, and return its path."""
    if not plugins:
        return ""
    tiers: Any = policy.BUILT_IN["tiers"]
    more = [{"plugins": [{"name": name} for name in plugins]}]
    path.write_bytes(msgspec.json.encode({**policy.BUILT_IN, "tiers": [*tiers, *more]}))
    return str(path)

"""What may be wrong for a moment, but not for long."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from tests.simulation.judges.history import Finding, Settings

Problem: TypeAlias = tuple[str, str]
"""Rule and message."""


class Patience:
    """Compares what is wrong now with what was wrong before.

    What heals by itself after minutes, such as by a list that is read again, looks right at the end
    of a run. So each problem must disappear, or change, within some seconds; time in which
    something was broken doesn't count.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._since: dict[Problem, float] = {}
        self._told: set[Problem] = set()

    def look(self, found: Iterable[Finding], at: float) -> Iterator[Finding]:
        """Take what is wrong at a moment; give what has been wrong for too long, once each."""
        problems = {(finding.rule, finding.message): None for finding in found}
        self._since = {problem: self._since.get(problem, at) for problem in problems}
        self._told &= self._since.keys()
        for problem, since in self._since.items():
            rule, message = problem
            known = problem in self._told
            if not known and self._settings.exceeds(since, at, self._settings.soon_seconds):
                self._told.add(problem)
                seconds = self._settings.elapsed(since, at)
                yield Finding(at=at, rule=rule, message=f"{message}, for {seconds:.0f} s")

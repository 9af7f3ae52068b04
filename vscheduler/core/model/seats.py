"""Seats: on which nodes the pods of a class are, and for which queues."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vscheduler.core.model import jobs
from vscheduler.core.model import nodes as tables

LAYOUTS_MAX = 2
"""The nodes as they are, and as they were before some of them were lost."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seats:
    """Where our pods of one class are that hold room and aren't leaving, one place per node and
    queue. Who keeps account of them makes a new value when a pod comes or goes.
    """

    nodes: tuple[str, ...]
    """By name; a node need not be in the table: it may have left, or not be ours to use."""
    queues: tuple[str, ...]
    """Whose pods these are, there or not: as long as `nodes`."""
    counts: NDArray[np.int64]
    """How many of them, (S,)."""
    _known: dict[tables.NodeLayout, NDArray[np.int64]] = field(default_factory=dict, repr=False)

    def rows(self, layout: tables.NodeLayout) -> NDArray[np.int64]:
        """The nodes' rows in a layout, -1 for those that aren't in it, (S,); found once for the
        last layouts that were asked about.
        """
        found = self._known.get(layout)
        if found is None:
            if len(self._known) >= LAYOUTS_MAX:
                self._known.clear()
            rows = map(layout.rows.get, self.nodes, itertools.repeat(-1))
            found = np.fromiter(rows, dtype=np.int64, count=len(self.nodes))
            self._known[layout] = found
        return found


ByClass: TypeAlias = Mapping[jobs.TaskClass, Seats]
"""Of every class that has pods somewhere."""

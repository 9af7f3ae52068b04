"""Versions of the page's sections for each visitor: they change with what the visitor may see.

The versions of a view change with the jobs of all namespaces, and would tell a visitor when others
submit, start and end theirs. Visitors with equal rights have equal versions.
"""

import secrets
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from vscheduler.web.cluster_view import JobRow, View
from vscheduler.web.documents import Access

KINDS_MAX = 200
"""How many kinds of visitors are told apart; versions of others begin anew."""

FIRST_MAX = 2**40
"""Versions begin anywhere, so that they tell nothing of the past. JavaScript counts up to 2^53."""

Rights = tuple[frozenset[str] | None, bool, bool]
Sections = Mapping[str, object]
Rows = Sequence[JobRow]


class _Known(msgspec.Struct, kw_only=True):
    """What visitors with the same rights have seen last."""

    stamp: object
    """Of the view."""
    sections: Sections
    versions: dict[str, int]


class VisitorVersions:
    """Remembers what visitors have seen."""

    def __init__(self) -> None:
        self._known: OrderedDict[Rights, _Known] = OrderedDict()
        self._stamp: object = None
        self._rows: Mapping[str, Rows] = {}
        """Jobs of the view with that stamp, by namespace."""

    def of(self, view: View, access: Access) -> View:
        """Return the view with the versions of this visitor."""
        rights = (access.groups_in, access.queues, access.nodes)
        stamp = (view.time, *view.versions.values())
        known = self._known.get(rights)
        if known is None:
            sections = self._seen(view, access, stamp)
            versions = {name: secrets.randbelow(FIRST_MAX) for name in sections}
            known = _Known(stamp=stamp, sections=sections, versions=versions)
            self._known[rights] = known
        elif known.stamp != stamp:
            sections = self._seen(view, access, stamp)
            changed = [name for name in sections if sections[name] != known.sections[name]]
            for name in changed:
                known.versions[name] += 1
            known.stamp, known.sections = stamp, sections
        self._known.move_to_end(rights)
        while len(self._known) > KINDS_MAX:
            self._known.popitem(last=False)
        return replace(view, versions=dict(known.versions))

    def _seen(self, view: View, access: Access, stamp: object) -> Sections:
        """Return what the visitor may see of each section."""
        rows: Iterable[JobRow] = view.job_rows
        if access.groups_in is not None:
            if self._stamp != stamp:
                self._stamp, self._rows = stamp, _by_namespace(view.job_rows)
            there = sorted(access.groups_in)
            rows = (row for namespace in there for row in self._rows.get(namespace, ()))
        return {
            "instance": view.instance,
            "queues": view.queue_rows if access.queues else (),
            "jobs": tuple(_seen_row(row, access) for row in rows),
            "decisions": tuple(
                decision
                for decision in view.decisions
                if access.sees(decision.job.partition("/")[0])
            ),
            "fairness": view.samples if access.queues else (),
        }


def _by_namespace(rows: Rows) -> Mapping[str, Rows]:
    found: defaultdict[str, list[JobRow]] = defaultdict(list)
    for row in rows:
        found[row.namespace].append(row)
    return found


def _seen_row(row: JobRow, access: Access) -> JobRow:
    if row.place is not None and not access.sees_places:
        row = replace(row, place=None)
    if row.nodes and not access.nodes:
        row = replace(row, nodes=tuple(("", pods) for _, pods in row.nodes))
    return row

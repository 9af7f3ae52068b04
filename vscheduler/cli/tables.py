"""Result tables of `simulate`: queues, placements, evictions and waiting jobs."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

from rich import table

from vscheduler.cli.output import Screen
from vscheduler.explain import wording as explained
from vscheduler.explain.remedies import Explanation
from vscheduler.mirror import queue_status
from vscheduler.mirror.wording import phrases, refusal_sentences, sentences
from vscheduler.model import resources
from vscheduler.model.decisions import Exclusion, LimitedBy, QueueFigures
from vscheduler.model.queues import Tree
from vscheduler.model.resources import ResourceSpace
from vscheduler.simulator.run import Outcome

COLUMN_GAP = 3

SENTENCE_WIDTH = 70
"""Width of sentences beside a queue's name: 100 columns suffice with names of usual length."""


def show(outcome: Outcome, stream: TextIO, *, cycles: bool = False) -> None:
    """Print placements, evictions, queues, and waiting groups with their reasons.

    `cycles` adds the cycle of each placement and eviction.
    """
    terminal = Screen(stream)
    sections = (
        _placements(outcome, cycles=cycles),
        _domains(outcome),
        _evictions(outcome, cycles=cycles),
        queue_table(outcome.last.queues, outcome.tree),
        _shares(outcome.last.queues),
        _left_out(outcome.last.excluded),
        _waiting(outcome),
    )
    for number, section in enumerate(section for section in sections if section.row_count):
        if number:
            terminal.print()
        terminal.print(section)


def explanation(found: Explanation, stream: TextIO) -> None:
    """Print why a job waits, and what would start it."""
    Screen(stream).print(*explained.lines(found), sep="\n")


def columns(*titles: str) -> table.Table:
    """Return an empty table in the style of kubectl."""
    made = table.Table(box=None, pad_edge=False, padding=(0, COLUMN_GAP, 0, 0))
    for title in titles:
        made.add_column(title.upper(), overflow="fold")
    return made


def queue_table(queues: Sequence[QueueFigures], tree: Tree) -> table.Table:
    """Return a table with a row per queue; an inner queue has what the queues below it have."""
    weights = [] if any(map(_has_quota, queues)) else ["weight"]
    shown = columns("queue", "state", *weights, "allocated", "deserved", "request", "share")
    for queue in queue_status.with_subtrees(queues, tree):
        share = ""
        if queue.entitlement is not None:
            share = phrases.share(queue.entitlement.share, queue.allocated, queue.deserved)
        shown.add_row(
            queue.name,
            str(queue.state),
            *(str(queue.weight) for _ in weights),
            amounts(queue.allocated),
            amounts(queue.deserved),
            amounts(queue.request),
            share,
        )
    return shown


def _has_quota(queue: QueueFigures) -> bool:
    """Whether a queue owns what it deserves, so that weights mean nothing."""
    bases = {} if queue.entitlement is None else queue.entitlement.bases
    return any(basis.bound is LimitedBy.QUOTA for basis in bases.values())


def amounts(named: Mapping[str, float]) -> str:
    """Return `24 cpu, 96Gi memory`, without pods."""
    space = ResourceSpace.of(named)
    return ", ".join(
        f"{phrases.amount(name, named[name])} {name}"
        for name in space.names
        if name in named and name != resources.PODS
    )


def _shares(queues: Iterable[QueueFigures]) -> table.Table:
    """Return a table of explanations of deserved amounts; idle queues are left out."""
    shown = columns("queue", "its share")
    shown.columns[1].max_width = SENTENCE_WIDTH
    for queue in queues:
        explained = queue_status.explanation(queue)
        if explained is not None and (queue.request or queue.problem is not None):
            shown.add_row(queue.name, explained.message)
    return shown


def _left_out(excluded: Iterable[Exclusion]) -> table.Table:
    """Return a table of nodes that no pod could use."""
    shown = columns("nodes not usable", "why")
    shown.columns[0].max_width = SENTENCE_WIDTH
    for each in excluded:
        shown.add_row(queue_status.nodes(each.nodes), refusal_sentences.cause(each.refusal))
    return shown


def _placements(outcome: Outcome, *, cycles: bool) -> table.Table:
    shown = columns("pod", "node", *["cycle"] * cycles, "")
    rows: list[tuple[str, ...]] = [
        (bind.task.key, bind.node, *[str(number)] * cycles, "")
        for number, result in enumerate(outcome.results, 1)
        for bind in result.binds
    ]
    last = [str(len(outcome.results))] * cycles
    rows += [(each.task.key, each.node, *last, "waits") for each in outcome.last.pipelined]
    for row in sorted(rows, key=operator.itemgetter(0)):
        shown.add_row(*row)
    return shown


def _domains(outcome: Outcome) -> table.Table:
    shown = columns("podgroup", "in the network")
    for job, domain in sorted(outcome.domains.items()):
        shown.add_row(job, sentences.placed_in(domain))
    return shown


def _evictions(outcome: Outcome, *, cycles: bool) -> table.Table:
    shown = columns("evicted", "node", *["cycle"] * cycles, "action", "for")
    for number, result in enumerate(outcome.results, 1):
        for evict in result.evicts:
            when = [str(number)] * cycles
            shown.add_row(evict.task.key, evict.node, *when, evict.action, evict.beneficiary or "")
    return shown


def _waiting(outcome: Outcome) -> table.Table:
    shown = columns("podgroup", "queue", "phase", "waits because")
    for status in outcome.last.groups:
        if status.reason is not None:
            why = sentences.sentence(status.reason)
            shown.add_row(status.job, status.queue, str(status.phase), why)
    return shown

"""Queues as text: a line per queue, a block per queue, or a tree. Pure functions from figures to
lines.

A table has a line per queue and is never cut. On a narrow terminal the figures of a queue are
stacked.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence

import msgspec

from vscheduler.cli.queue import queue_figures
from vscheduler.cli.queue.queue_figures import Counts, Figures, Group, Part
from vscheduler.mirror.wording import sentences
from vscheduler.model import queues
from vscheduler.model.queues import QueueProblem

GAP = "  "
ABSENT = queue_figures.ABSENT
WAITING_MAX = 10
"""How many waiting PodGroups of a queue are shown with their reasons."""

Row = Mapping[str, str]
"""Cells by title. A cell may have several lines."""

Paint = Callable[[str, str], str]
"""Colours a cell, given the title of its column."""


def unpainted(_title: str, cell: str) -> str:
    """Return the cell without colours."""
    return cell


class Style(msgspec.Struct, frozen=True, kw_only=True):
    """Output style."""

    now: float
    """Seconds since the epoch; ages are relative to this time."""
    width: int | None = None
    """Width of the terminal; None for files, whose lines may have any length."""
    wide: bool = False
    paint: Paint = unpainted


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """Titles and column widths, kept so that later lines align with earlier lines."""

    widths: Mapping[str, int]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Columns":
        """Return columns wide enough for these rows, at least one row."""
        widths = {title: len(title) for title in rows[0]}
        for row in rows:
            for title, cell in row.items():
                widths[title] = max(widths[title], *(len(line) for line in cell.split("\n")))
        return cls(widths=widths)

    @property
    def width(self) -> int:
        """The width of a whole line."""
        return sum(self.widths.values()) + len(GAP) * (len(self.widths) - 1)

    def heading(self, paint: Paint) -> str:
        """Return the line of titles."""
        (line,) = self.lines({title: title for title in self.widths}, lambda _, cell: cell)
        return paint("", line)

    def lines(self, row: Row, paint: Paint) -> list[str]:
        """Return a row as lines: as many as its tallest cell has."""
        cells = {title: row[title].split("\n") for title in self.widths}
        made = []
        for at in range(max(len(lines) for lines in cells.values())):
            at_line = {
                title: lines[at] if at < len(lines) else "" for title, lines in cells.items()
            }
            padded = (
                paint(title, cell) + " " * (self.widths[title] - len(cell))
                for title, cell in at_line.items()
            )
            made.append(GAP.join(padded).rstrip())
        return made


def table(rows: Sequence[Row], paint: Paint) -> list[str]:
    """Return a table with titles."""
    if not rows:
        return []
    columns = Columns.of(rows)
    return [columns.heading(paint), *(line for row in rows for line in columns.lines(row, paint))]


def listed(shown: Sequence[Figures], style: Style) -> list[str]:
    """Return all queues, a line per queue, or several lines per queue on a narrow terminal."""
    rows = list_rows(shown, style)
    narrow = rows and style.width is not None and Columns.of(rows).width > style.width
    if narrow and not style.wide:
        rows = _stacked(shown, style)
    return table(rows, style.paint)


def list_rows(shown: Sequence[Figures], style: Style) -> list[Row]:
    """Return a row per queue; `24/25` is allocated/deserved."""
    names = queue_figures.named(shown)
    optional = Optional(
        parents=any(each.parent for each in shown), weights=queue_figures.divided_by_weight(shown)
    )
    rows: list[Row] = []
    for each in shown:
        rows.append(_row(each, names, style, optional))
        for part in each.schedulers:
            own = {"NAME": f"{each.name} ({part.scheduler})", "SHARE": queue_figures.share(part)}
            own |= {name.upper(): _part_pair(name, part) for name in names}
            rows.append(dict.fromkeys(rows[-1], "") | own)
    return rows


class Optional(msgspec.Struct, frozen=True, kw_only=True):
    """Columns that say something only in some clusters."""

    parents: bool
    weights: bool
    """False where queues have quotas, as with plugin capacity."""


def _row(figures: Figures, names: Sequence[str], style: Style, optional: Optional) -> Row:
    counts = figures.counts
    return {
        "NAME": figures.name,
        "STATE": figures.state,
        **({"WEIGHT": str(figures.weight)} if optional.weights else {}),
        **({"PARENT": _parent(figures)} if optional.parents else {}),
        **{name.upper(): pair(name, figures) for name in names},
        "SHARE": share(figures),
        "WAITING": str(counts.pending + counts.inqueue) if counts else ABSENT,
        "RUNNING": str(counts.running) if counts else ABSENT,
        "AGE": _age(figures.created, style.now),
        **(_more(figures) if style.wide else {}),
    }


def _more(figures: Figures | None) -> Row:
    """Return the additional cells of the wide table."""
    return {
        "REQUEST": assigned(figures.request if figures else {}),
        "REALCAPABILITY": assigned(figures.real_capability if figures else {}),
        "GUARANTEE": assigned(figures.guarantee if figures else {}),
        "CAPABILITY": assigned(figures.capability if figures else {}),
    }


def _stacked(shown: Sequence[Figures], style: Style) -> list[Row]:
    """Return the rows for a narrow terminal."""
    names = queue_figures.named(shown)
    weights = queue_figures.divided_by_weight(shown)
    rows: list[Row] = []
    for queue in shown:
        counts = queue.counts
        about = [queue.state, _age(queue.created, style.now)]
        if weights:
            about.insert(1, f"weight {queue.weight}")
        if queue.parent:
            about.insert(1, f"in {queue.parent}")
        rows.append(
            {
                "NAME": queue.name,
                "ALLOCATED/DESERVED": "\n".join(_pairs(queue, names)) or ABSENT,
                "SHARE": share(queue),
                "PODGROUPS": "\n".join(_counted(counts)) if counts else ABSENT,
                "ABOUT": "\n".join(about),
            }
        )
    return rows


def block(figures: Figures, groups: Sequence[Group] | None, style: Style) -> list[str]:
    """Return all details of a queue; `groups` are its waiting PodGroups, None if unreadable."""
    about = {
        "Name": figures.name,
        "State": figures.state,
        **({"Weight": str(figures.weight)} if queue_figures.divided_by_weight([figures]) else {}),
        "Priority": str(figures.priority),
        "Parent": _parent(figures),
        "Share": share(figures),
        "PodGroups": ", ".join(_counted(figures.counts)) if figures.counts else ABSENT,
        "Age": _age(figures.created, style.now),
    }
    longest = max(len(title) for title in about) + 1
    made = [
        f"{f'{title}:':<{longest}}{GAP}{style.paint(title.upper(), cell)}"
        for title, cell in about.items()
    ]
    made += ["", *table(_figure_rows(figures), style.paint)]
    for part in figures.schedulers:
        pairs = [f"{_part_pair(name, part)} {name}" for name in queue_figures.named([figures])]
        line = f"{part.scheduler} has, of what it gives: {', '.join(pairs)}"
        made += ["", *wrapped(f"{line}; share {queue_figures.share(part)}", style, indent="")]
    for sentence in figures.sentences:
        when = f", {_age(sentence.written, style.now)} ago" if sentence.written else ""
        made += ["", *wrapped(f"{sentence.scheduler}{when}: {sentence.text}", style, indent="")]
    if groups:
        made += ["", "Waiting:"]
        for group in groups[:WAITING_MAX]:
            line = f"{group.key} ({_age(group.created, style.now)}): {group.waits_because}"
            made += wrapped(line, style, indent=GAP)
        if len(groups) > WAITING_MAX:
            made.append(f"{GAP}and {len(groups) - WAITING_MAX} more")
    return made


def _figure_rows(figures: Figures) -> list[Row]:
    names = queue_figures.named([figures], limits=True)
    held = {
        "Allocated": figures.allocated,
        "Deserved": {} if figures.schedulers else figures.deserved,
        "Request": figures.request,
    }
    limits = {
        "Real capability": figures.real_capability,
        "Capability": figures.capability,
        "Guarantee": figures.guarantee,
        **({"Quota": figures.quota} if figures.quota else {}),
    }
    return [
        {"RESOURCE": title, **{name.upper(): of(name, amounts) for name in names}}
        for rows, of in ((held, queue_figures.amount), (limits, queue_figures.limit))
        for title, amounts in rows.items()
    ]


def tree(shown: Sequence[Figures], style: Style) -> list[str]:
    """Return queues below their parents, root on top, followed by queues without a place in the
    tree.
    """
    by_name = {each.name: each for each in shown}
    grown, problems = grow(shown)
    names = queue_figures.named(shown)
    rows = [_tree_row(prefix + name, by_name.get(name), names, style) for prefix, name in grown]
    made = table(rows, style.paint)
    if problems:
        made += ["", "Without a place in the tree:"]
        rows = [_tree_row(name, by_name[name], names, style) for name in problems]
        made += table(rows, style.paint)
        texts = dict.fromkeys(sentences.queue_problem(problem) for problem in problems.values())
        made += [line for text in texts for line in wrapped(text, style, indent="")]
    return made


def grow(
    shown: Sequence[Figures],
) -> tuple[list[tuple[str, str]], dict[str, QueueProblem]]:
    """Return the queues in tree order, each with its branch prefix, and the queues without a place
    in the tree, by name.
    """
    found = queue_figures.tree(shown)
    grown: list[tuple[str, str]] = []
    due = [(queues.ROOT, "", "")]
    while due:
        name, lead, below = due.pop()
        grown.append((lead, name))
        children = [each for each in found.children.get(name, ()) if each not in found.problems]
        for at, each in reversed(list(enumerate(children, start=1))):
            last = at == len(children)
            branch, trunk = ("└─ ", "   ") if last else ("├─ ", "│  ")
            due.append((each, below + branch, below + trunk))
    return grown, dict(sorted(found.problems.items()))


def _tree_row(label: str, figures: Figures | None, names: Sequence[str], style: Style) -> Row:
    row = {
        "NAME": label,
        **{name.upper(): pair(name, figures) if figures else ABSENT for name in names},
        "SHARE": share(figures) if figures else ABSENT,
    }
    if not style.wide:
        return row
    state, weight = (figures.state, str(figures.weight)) if figures else (ABSENT, ABSENT)
    return {**row, "STATE": state, "WEIGHT": weight, **_more(figures)}


def pair(resource: str, figures: Figures) -> str:
    """Return `24/25`: allocated/deserved; `24/-` if each scheduler has its own figures."""
    held = queue_figures.amount(resource, figures.allocated)
    deserved = queue_figures.amount(resource, {} if figures.schedulers else figures.deserved)
    return ABSENT if held == deserved == ABSENT else f"{held}/{deserved}"


def _part_pair(resource: str, part: Part) -> str:
    held = queue_figures.amount(resource, part.allocated)
    return f"{held}/{queue_figures.amount(resource, part.deserved)}"


def _pairs(figures: Figures, names: Sequence[str]) -> list[str]:
    """Return `24/25 cpu` for each of these resources with any figure."""
    pairs = {name: pair(name, figures) for name in names}
    return [f"{cell} {name}" for name, cell in pairs.items() if cell != ABSENT]


def share(figures: Figures) -> str:
    """Return the queue's share with its resource, as `0.96 (cpu)`; `-` if each scheduler has its
    own.
    """
    return ABSENT if figures.schedulers else queue_figures.share(figures)


def assigned(amounts: Mapping[str, str]) -> str:
    """Return `cpu=24,memory=96Gi`: amounts in a cell without spaces."""
    named = queue_figures.named_in(amounts)
    return ",".join(f"{name}={queue_figures.amount(name, amounts)}" for name in named) or ABSENT


def _parent(figures: Figures) -> str:
    return ABSENT if figures.name == queues.ROOT else figures.parent or queues.ROOT


def _counted(counts: Counts) -> list[str]:
    return [
        f"{counts.pending} pending",
        f"{counts.inqueue} inqueue",
        f"{counts.running} running",
    ]


def _age(created: float, now: float) -> str:
    return queue_figures.age(now - created) if created else ABSENT


def wrapped(text: str, style: Style, *, indent: str) -> list[str]:
    """Return the text wrapped to the terminal's width; a single line for files."""
    if style.width is None:
        return [indent + text]
    return textwrap.wrap(
        text,
        max(style.width, 20),
        initial_indent=indent,
        subsequent_indent=indent + GAP,
        break_on_hyphens=False,
    )

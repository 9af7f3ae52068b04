"""The demo's live view, and its summary."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO, TypeAlias

from rich import console, live

from vscheduler.cli import consoles, demo_view, scene, screen, tables

PLAIN_SECONDS = 1.0
"""How often a log gets a line, at most."""

REFRESHES_PER_SECOND = 10

Show: TypeAlias = Callable[[demo_view.View, float], None]
"""Is told what there is to see, and after how many seconds."""


class PlainLines:
    """For logs: a line when something has changed, and not too often."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._said = ""
        self._said_at = -PLAIN_SECONDS

    def __call__(self, view: demo_view.View, elapsed: float) -> None:
        """Print the view unless it looks as it did, or a line was printed a moment ago."""
        said = line(view)
        if said != self._said and elapsed - self._said_at >= PLAIN_SECONDS:
            self._said, self._said_at = said, elapsed
            screen.say(f"{elapsed:5.1f} s  {said}", stream=self._stream)


@contextmanager
def on(stream: TextIO) -> Iterator[Show]:
    """A table that changes in place on a terminal, a line now and then in a log."""
    terminal = consoles.Screen(stream)
    if not terminal.is_terminal:
        yield PlainLines(stream)
        return
    with live.Live(console=terminal, refresh_per_second=REFRESHES_PER_SECOND) as shown:
        yield lambda view, elapsed: shown.update(picture(view, elapsed))


def line(view: demo_view.View) -> str:
    """Everything in one line: `12/13 gangs run; speech 25 of 25 CPU; …`."""
    parts = [f"{view.whole}/{len(scene.FITTING)} gangs run"]
    for tenant in scene.TENANTS:
        share = view.shares.get(tenant, demo_view.Share())
        parts.append(f"{tenant} {share.allocated:g} of {share.deserved:g} CPU")
    parts += [f"{group.gang.key} waits: {group.reason}" for group in view.waiting]
    return "; ".join(parts)


def picture(view: demo_view.View, elapsed: float) -> console.Group:
    """Queues as a table, then the gangs that wait, each with its reason."""
    shown = tables.columns("queue", "allocated", "deserved", "share", "gangs running", "waiting")
    for tenant in scene.TENANTS:
        share = view.shares.get(tenant, demo_view.Share())
        groups = [group for group in view.groups if group.gang.tenant == tenant]
        whole = sum(group.whole for group in groups)
        shown.add_row(
            tenant,
            f"{share.allocated:g} cpu",
            f"{share.deserved:g} cpu",
            f"{share.share:.2f}",
            str(whole),
            str(len(groups) - whole),
        )
    reasons = [f"{group.gang.key} waits: {group.reason}" for group in view.waiting]
    return console.Group(shown, "", *reasons, f"{elapsed:.1f} s, {view.running} pods run")


def summary(view: demo_view.View, seconds: float) -> list[str]:
    """What came of it; seconds until the last pod that can run ran."""
    lines = [
        (
            f"{view.whole} of {len(scene.FITTING)} gangs that fit run whole: "
            f"{view.running} pods on {scene.WORKERS} workers of {scene.WORKER_CPU} CPU "
            f"in {seconds:.1f} s ({view.running / seconds:.0f} pods/s)"
        )
    ]
    for tenant in scene.TENANTS:
        share = view.shares.get(tenant, demo_view.Share())
        lines.append(
            f"queue {tenant}: {share.allocated:g} CPU of the {share.deserved:g} it deserves, "
            f"share {share.share:.2f}"
        )
    lines += [
        f"{group.gang.key} waits whole: {group.reason}" for group in view.waiting if not group.bound
    ]
    return lines

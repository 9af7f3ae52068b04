"""Amounts in English: quantities, requests and counts, short enough for sentences."""

import datetime as dt
import math
import re
from collections.abc import Mapping, Sequence

from vscheduler.model import jobs, resources
from vscheduler.model.jobs import JobId
from vscheduler.model.resources import ResourceSpace
from vscheduler.model.run_times import MAX_RUN_TIME, PAST_DAYS

BINDS_MAX = 3
"""How many binds of the same moment are named."""

COUNTED = re.compile(r"\d+ of \d+ fits?")
SHORT_MAX = 72
"""Characters of a short reason."""

KIBI = 1024
BINARY_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
NO_SHARE = "-"
BORROWED = "borrowed"
SHARE_NEAR = 0.05
"""By which part of a share allocated ÷ deserved, of rounded figures, may differ from the share."""

BYTES = (resources.MEMORY, "ephemeral-storage", "hugepages-", "storage")
"""Byte-counted resources, by name or prefix."""


def amount(resource: str, value: float) -> str:
    """Return an amount as a short Kubernetes quantity, precise enough for people.

    `value` is in millicores for cpu, printed as cores with up to three decimals, and in bytes or
    devices for all other resources. `value` may be a fraction.
    """
    if resource == resources.CPU:
        whole, milli = divmod(round(value), 1000)
        return f"{whole}.{milli:03}".rstrip("0").rstrip(".")
    if not resource.startswith(BYTES):
        return str(round(value)) if abs(value - round(value)) < 1e-3 else f"{value:.2f}"
    size, power = float(round(value)), 0
    while abs(size) >= KIBI and power < len(BINARY_UNITS) - 1:
        size, power = size / KIBI, power + 1
    if power and size % 1:  # people expect quantities without a fraction: 1536Mi
        size, power = size * KIBI, power - 1
    return f"{round(size)}{BINARY_UNITS[power]}"


def figure(resource: str, value: float) -> str:
    """Return an amount for a table: `24`, `33.33`, `0.05`, `96Gi`.

    Two decimals of a core are precise enough, three below a tenth.
    """
    if resource != resources.CPU or abs(value) < 100:
        return amount(resource, value)
    return f"{value / 1000:.2f}".rstrip("0").rstrip(".")


def share(value: float, allocated: Mapping[str, float], deserved: Mapping[str, float]) -> str:
    """Return a share with the resource that makes it: `0.96 (cpu)`.

    The resource is the one with the largest allocated ÷ deserved. Without a resource near the
    share, as for figures of different times, the number stands alone. A queue that deserves nothing
    has no share: it has borrowed all that it has, or has nothing (`-`). Plugins give it a share
    nevertheless, by which they order queues.
    """
    if not _any(deserved):
        return BORROWED if _any(allocated) else NO_SHARE
    ratios = {
        name: allocated[name] / deserved[name]
        for name in ResourceSpace.of(deserved).names
        if deserved.get(name) and allocated.get(name)
    }
    top = max(ratios, key=lambda name: ratios[name], default="")
    text = f"{value:.2f}"
    return f"{text} ({top})" if top and abs(ratios[top] - value) <= SHARE_NEAR * value else text


def _any(amounts: Mapping[str, float]) -> bool:
    """Whether there is anything but places for pods."""
    return any(amount for name, amount in amounts.items() if name != resources.PODS)


def request(amounts: Mapping[str, float]) -> str:
    """Return a request as `8 cpu and 16Gi memory`: cpu and memory first, without pods."""
    space = ResourceSpace.of(amounts)
    named = [
        quantity(name, amounts[name])
        for name in space.names
        if name != resources.PODS and amounts.get(name)
    ]
    return listed(named) or "no resources"


def pods(count: int) -> str:
    """Return `1 pod`, `2 pods`."""
    return f"{count} pod{'' if count == 1 else 's'}"


def duration(seconds: float) -> str:
    """Return a duration in whole seconds, as in Go: `10m`, `1h30m`, `90s` as `1m30s`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


def time_of_day(seconds: float) -> str:
    """Return `12:00:40` for Unix seconds, in UTC."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%H:%M:%S")


def instant(seconds: float) -> str:
    """Return `2026-11-29 12:00:40 UTC` for Unix seconds, rounded up to a second."""
    return dt.datetime.fromtimestamp(math.ceil(seconds), dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def bound(named: Sequence[tuple[str, str]], count: int) -> str:
    """Return `8 pods bound: a-0 to n1, a-1 to n2, a-2 to n1 and 5 more`.

    `named` has the first pods with their nodes, `count` is the number of all.
    """
    words = [f"{pod} to {node}" for pod, node in named[:BINDS_MAX]]
    if count > len(words):
        words.append(f"{count - len(words)} more")
    return f"{pods(count)} bound: {listed(words)}"


def short(message: str, most: int = SHORT_MAX) -> str:
    """Return the first statement of a sentence that isn't what the job needs, cut to `most`
    characters. How many pods fit is no cause, so that the next statement follows.
    """
    first, *others = message.removeprefix("not admitted: ").split("; ")
    if first.startswith("needs ") and others:
        first, *others = others
    if COUNTED.fullmatch(first) and others:
        first = f"{first}; {others[0]}"
    return first if len(first) <= most else f"{first[: most - 1].rstrip()}…"


def listed(words: Sequence[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def any_of(words: Sequence[str]) -> str:
    """Return `a`, `a or b`, `a, b or c`."""
    return " or ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else "".join(words)


def job(key: JobId) -> str:
    """Return `team-a/train`, whichever kind of PodGroup it has, or none."""
    return "/".join(jobs.names_of(key))


def quantity(resource: str, value: float) -> str:
    """Return an amount with its resource: `8 cpu`, `1 pod`."""
    if resource == resources.PODS:
        return pods(round(value))
    return f"{amount(resource, value)} {resource}"


def unclaimed(owner: str = "", *, native: bool = False) -> str:
    """Return why no scheduler takes a PodGroup without pods that names none, and what to set;
    `native` says whether it is Kubernetes' own.

    `owner` creates its pods; empty if unknown.
    """
    if native:
        return (
            "no scheduler takes its PodGroup, which has no pods yet: create them, with the "
            "scheduler in spec.schedulerName"
        )
    before = f", or on {owner} before its PodGroup is made," if owner else ""
    return (
        "no scheduler takes its PodGroup, which has no pods yet and names no scheduler: set the "
        f"annotation scheduling.volcano.sh/scheduler-name on it{before} or start vscheduler with "
        "--claim-unowned-podgroups"
    )


def creates(owner: str) -> str:
    """Return who creates the pods of a job that has none, and when it doesn't.

    Owners as `vcjob/huge` wait for the phase Inqueue; Jobs, JobSets and RayClusters can be
    suspended.
    """
    return f"{owner} creates them, unless it is suspended or waits for the job to be admitted"


def without_pods(minimum: int, owner: str = "") -> str:
    """Return what would start a job without pods. `owner` creates them; empty if unknown."""
    if owner:
        return f"None of its pods exist: {creates(owner)}."
    wanted = pods(max(1, minimum))
    return f"None of its pods exist: create {wanted}, or see why their owner doesn't."


PODS_THEN = "its owner creates its pods then"


def start(cycle: int, *, for_admission: bool = False) -> str:
    """Return when a job starts, or is admitted: `starts in cycle 1 if nothing changes`.

    A later cycle isn't promised: what the job waits for, such as a terminating pod, may never end.
    """
    does, do = ("is admitted", "be admitted") if for_admission else ("starts", "start")
    then = f"; {PODS_THEN}" if for_admission else ""
    if cycle == 1:
        return f"{does} in cycle 1 if nothing changes{then}"
    return f"can {do} in cycle {cycle} at the earliest{then}"


def domains(messages: Sequence[str]) -> list[str]:
    """Return lines about the domains of the network in which most pods of a job have room."""
    head = ["The domains with most room:"] if messages else []
    return [*head, *(f"  - {each}" for each in messages)]


def not_enough(said: str) -> list[str]:
    """Return a line about what has to be done first, and why the job waits after that, too."""
    return [f"It isn't enough to {said}."] if said else []


def likely(earliest: float, latest: float, *, by_past: bool) -> str:
    """Return `Likely to start in 2h to 5h, by run times of the last 30 days.`; times in seconds,
    the latest may be infinite.
    """
    if not by_past:
        return f"Starts in about {roughly(latest)}, if all pods run for as long as they may."
    basis = f"by run times of the last {PAST_DAYS} days"
    if latest == math.inf:
        return f"Likely to start in {roughly(earliest)} or much later, {basis}."
    times = dict.fromkeys(map(roughly, (earliest, latest)))
    about = "" if len(times) > 1 else "about "
    return f"Likely to start in {about}{' to '.join(times)}, {basis}."


def unknown_start(unknown: int, count: int) -> str:
    """Return that it isn't known when a job starts: of how many pods on nodes nothing tells how
    long they run.
    """
    which = f"{'' if unknown == count else f'{unknown} of '}{pods(count)}"
    has, them = ("has", "it") if unknown == count == 1 else ("have", "them")
    return (
        f"When it starts isn't known: {which} on nodes {has} no {MAX_RUN_TIME}, and no history "
        f"tells how long jobs like {them} run."
    )


def roughly(seconds: float) -> str:
    """Return a duration without more digits than are known: `1m`, `45m`, `2h30m`, `13h`, `3d`."""
    minutes = max(1, round(seconds / 60))
    if minutes > 10:
        minutes = round(minutes / 5) * 5
    if minutes < 60:
        return f"{minutes}m"
    if minutes < 10 * 60:
        return duration(round(minutes / 10) * 600)
    hours = round(minutes / 60)
    return f"{hours}h" if hours < 48 else f"{round(hours / 24)}d"


def remedies(
    starts: int | None,
    messages: Sequence[str],
    cut: Sequence[str],
    *,
    hidden: int = 0,
    untried: Sequence[str] = (),
    for_admission: bool = False,
) -> list[str]:
    """Return what would start a job as lines of text; for a job that waits for admission without
    pods, what would have it admitted.

    `starts` is the cycle in which it starts anyway, `hidden` the number of changes that concern
    what the user may not see, `cut` names the kinds of changes not searched to the end, and
    `untried` has what plugins that aren't built in say of nodes that they refuse.
    """
    if starts is not None:
        return [f"It {start(starts, for_admission=for_admission)}."]
    then = f"; {PODS_THEN}" if for_admission else ""
    does = "have it admitted" if for_admission else "start it"
    lines = [f"No single change that was tried would {does}{then}."]
    if messages:
        lines = [
            f"Any one of these changes would {does}{then}:",
            *(f"  - {message}" for message in messages),
        ]
    if hidden:
        lines.append(f"{hidden} more would, which concern what you may not see.")
    if cut:
        lines.append(f"Not searched to the end: {listed(cut)}.")
    if untried:
        said = listed([f'"{each}"' for each in untried])
        lines.append(f"Not tried: what would let nodes pass a filter of your own ({said}).")
    return lines

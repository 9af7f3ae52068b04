"""Names of automatic PodGroups, from the name of the pods' controller and a short hash of its UID,
and the condition that tells of its annotations.

Pods of scheduler `volcano` get Volcano's names, so that Volcano's controllers and ours never create
two PodGroups for the same pods. Earlier versions used Volcano's names for all schedulers. Their
PodGroups are still recognised.
"""

import hashlib
import re
from functools import lru_cache

VOLCANO = "volcano"
"""The scheduler name whose automatic PodGroups have Volcano's names."""

PREFIX = "podgroup-"
"""Start of Volcano's names; the UID follows (Volcano: helpers.GeneratePodgroupName)."""

NAME_MAX = 63
"""The longest name, in characters: also valid as the value of a label."""

HASH_DIGITS = 8
CHECK_DIGITS = 2
"""The check digits tell automatic names from names that merely end with ten digits."""

CONDITION = "vscheduler.io/Annotations"
"""Type of the condition of automatic PodGroups whose workload has annotations that can't be
read.
"""

UNREADABLE = "AnnotationUnreadable"
"""The reason of this condition, and of events about such workloads."""

FALLBACK = "pods"
"""The start of the name if no character of the controller's name is allowed."""

_SHORT = re.compile(rf"(.+)-([0-9a-f]{{{HASH_DIGITS}}})([0-9a-f]{{{CHECK_DIGITS}}})")
_FORBIDDEN = re.compile(r"[^a-z0-9]+")
_KEPT = 4096
"""How many names are cached."""


def automatic(name: str, uid: str, scheduler: str) -> str:
    """Return the name of the automatic PodGroup for pods of a controller, or for a bare pod.

    `name` and `uid` are those of the controller or bare pod, `scheduler` is the pods' scheduler
    name. The result is a DNS-1123 label, whatever the name contains: owner references aren't
    validated. A recreated controller has a new UID, so its pods get a new PodGroup.
    """
    return of_volcano(uid) if scheduler == VOLCANO else short(name, uid)


def of_volcano(uid: str) -> str:
    """Return Volcano's name for the automatic PodGroup of the controller or bare pod."""
    return f"{PREFIX}{uid}"


@lru_cache(maxsize=_KEPT)
def short(name: str, uid: str) -> str:
    """Return our name: `train-` and ten hexadecimal digits for a Job `train`."""
    start_max = NAME_MAX - 1 - HASH_DIGITS - CHECK_DIGITS
    start = _FORBIDDEN.sub("-", name.lower()).strip("-")[:start_max].rstrip("-") or FALLBACK
    digits = _digest(uid)[:HASH_DIGITS]
    return f"{start}-{digits}{_check(start, digits)}"


def is_automatic(name: str) -> bool:
    """Whether the name is that of an automatic PodGroup, ours or Volcano's."""
    if name.startswith(PREFIX):
        return True
    dash = -1 - HASH_DIGITS - CHECK_DIGITS
    return name[dash : dash + 1] == "-" and _is_short(name)


@lru_cache(maxsize=_KEPT)
def _is_short(name: str) -> bool:
    """Whether the name ends with the digits of our names."""
    match = _SHORT.fullmatch(name)
    return match is not None and match[3] == _check(match[1], match[2])


def belongs(group: str, uid: str) -> bool:
    """Whether the automatic PodGroup of this name belongs to the controller or bare pod."""
    if group == of_volcano(uid):
        return True
    match = _SHORT.fullmatch(group)
    return (
        match is not None
        and match[2] == _digest(uid)[:HASH_DIGITS]
        and match[3] == _check(match[1], match[2])
    )


def _check(start: str, digits: str) -> str:
    return _digest(f"{start}-{digits}")[:CHECK_DIGITS]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()

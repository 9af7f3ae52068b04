"""Which names Kubernetes takes."""

import re

NAME_MAX = 253

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def is_subdomain(text: str) -> bool:
    """Whether this is a DNS-1123 subdomain, as most objects' names must be."""
    return len(text) <= NAME_MAX and _SUBDOMAIN.fullmatch(text) is not None


def no_subdomain(flag: str, name: str) -> str:
    """What is said of a name that is none."""
    return (
        f"{flag}: {name!r} is no DNS-1123 subdomain: lower-case letters, digits, '-' and '.', "
        f"each part starting and ending with a letter or digit, at most {NAME_MAX} characters"
    )

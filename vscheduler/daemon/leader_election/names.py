"""Which names Kubernetes takes."""

import re

NAME_MAX = 253
LABEL_MAX = 63

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")


def is_subdomain(text: str) -> bool:
    """Whether this is a DNS-1123 subdomain, as most objects' names must be."""
    return len(text) <= NAME_MAX and _SUBDOMAIN.fullmatch(text) is not None


def is_label(text: str) -> bool:
    """Whether this is a DNS-1123 label, as names of namespaces must be."""
    return len(text) <= LABEL_MAX and _LABEL.fullmatch(text) is not None


def no_subdomain(flag: str, name: str) -> str:
    """What is said of a name that is none."""
    return (
        f"{flag}: {name!r} is no DNS-1123 subdomain: lower-case letters, digits, '-' and '.', "
        f"each part starting and ending with a letter or digit, at most {NAME_MAX} characters"
    )


def no_label(flag: str, name: str) -> str:
    """The same of a namespace."""
    return (
        f"{flag}: {name!r} is no DNS-1123 label: lower-case letters, digits and '-', starting "
        f"and ending with a letter or digit, at most {LABEL_MAX} characters"
    )

"""Pods whose affinity is long: to read it is most of what they cost, and it never changes.

A pod is shown again whenever its status changes. What its affinity comes to is known by then, by
the text that it was worked out from: of a long one only a digest is taken, until somebody has to
read it.
"""

import hashlib

import msgspec

from vscheduler.mirror.decode import wire

LONG_BYTES = 16_384
"""An affinity of at least so many is left as it came."""

HEAD_BYTES = 64


class LargePod(wire.Pod, frozen=True):
    """A pod without its affinity; `spec.affinity` is None."""

    item: bytes = b""
    """All of it, in JSON."""
    digest: bytes = b""
    """Of the affinity's text."""


class _Spec(wire.Struct, frozen=True):
    affinity: msgspec.Raw = msgspec.Raw()


class _Pod(wire.Struct, frozen=True):
    spec: _Spec = _Spec()


_decode_affinity = msgspec.json.Decoder(_Pod).decode
_decode_pod = msgspec.json.Decoder(wire.Pod).decode


def read(item: bytes | msgspec.Raw) -> LargePod | None:
    """The pod, if its affinity is long; None: it isn't, or stands there twice.

    Raises msgspec.ValidationError for what isn't as a pod is, but for its affinity.
    """
    if len(memoryview(item)) < LONG_BYTES:
        return None
    text = bytes(_decode_affinity(item).spec.affinity)
    if len(text) < LONG_BYTES:
        return None
    whole = bytes(item)
    begin = _place(text, whole)
    pod = _decode_pod(whole[:begin] + b"null" + whole[begin + len(text) :])
    if pod.spec.affinity is not None:
        return None
    return LargePod(
        metadata=pod.metadata,
        spec=pod.spec,
        status=pod.status,
        item=whole,
        digest=hashlib.blake2b(text).digest(),
    )


def _place(text: bytes, whole: bytes) -> int:
    """Where a part of it begins. Its beginning is looked for: to look for all of it is slower than
    to read it.
    """
    begin = whole.index(text[:HEAD_BYTES])
    while not whole.startswith(text, begin):
        begin = whole.index(text[:HEAD_BYTES], begin + 1)
    return begin

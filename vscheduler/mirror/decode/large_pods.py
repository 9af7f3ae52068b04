"""Pods with a long affinity, whose decoding is put off.

Decoding a long affinity dominates the cost of its pod, and the affinity never changes, while the
pod is sent again with every status change. By then the pod class is known by the affinity's text.
So a digest of the text stands in for a long affinity until the content is needed.
"""

import hashlib

import msgspec

from vscheduler.mirror.decode.wire import Pod, Struct

LONG_BYTES = 16_384
"""An affinity of at least LONG_BYTES bytes isn't decoded at first."""

HEAD_BYTES = 64


class LargePod(Pod, frozen=True):
    """A pod without its affinity; `spec.affinity` is None."""

    item: bytes = b""
    """The whole pod in JSON."""
    digest: bytes = b""
    """Digest of the affinity's text."""


class _Spec(Struct, frozen=True):
    affinity: msgspec.Raw = msgspec.Raw()


class _Pod(Struct, frozen=True):
    spec: _Spec = _Spec()


_decode_affinity = msgspec.json.Decoder(_Pod).decode
_decode_pod = msgspec.json.Decoder(Pod).decode


def read(item: bytes | msgspec.Raw) -> LargePod | None:
    """Return the pod if its affinity is long.

    Return None for a short affinity, and for a pod with two affinity fields. Raises
    msgspec.ValidationError if anything but the affinity doesn't fit a pod.
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
    """Return the position of `text` in `whole`.

    Only the first bytes are searched for: searching for the whole text is slower than decoding.
    """
    begin = whole.index(text[:HEAD_BYTES])
    while not whole.startswith(text, begin):
        begin = whole.index(text[:HEAD_BYTES], begin + 1)
    return begin

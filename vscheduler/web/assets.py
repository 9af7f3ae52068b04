"""Files of the page: a fixed list, read once, so that no request leads to any other file."""

import hashlib
from collections.abc import Mapping
from importlib import resources

import msgspec

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class Asset(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the page."""

    body: bytes
    content_type: str
    etag: str


def load() -> Mapping[str, Asset]:
    """Return all files by name."""
    found = {}
    for file in (resources.files("vscheduler.web") / "pages").iterdir():
        suffix = file.name[file.name.rindex(".") :]
        body = file.read_bytes()
        digest = hashlib.sha256(body).hexdigest()[:16]
        found[file.name] = Asset(body=body, content_type=TYPES[suffix], etag=f'"{digest}"')
    return found

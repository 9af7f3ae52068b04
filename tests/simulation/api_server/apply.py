"""Server-side apply."""

from typing import Any

from tests.simulation.api_server import kinds, patches, store, wire


def check(kind: kinds.Kind, name: str, body: Any, manager: str) -> None:
    """Refuse what is no configuration to apply."""
    del kind, name, manager
    if not isinstance(body, dict):
        raise wire.bad_request("json: cannot unmarshal into Go value of type map[string]any")


def sole(
    kind: kinds.Kind, manager: str, subresource: str, body: wire.Object
) -> tuple[store.Manager, ...]:
    """The managers of an object that was made by this apply."""
    del kind, manager, subresource, body
    return ()


def merged(
    kind: kinds.Kind,
    item: store.Item,
    body: wire.Object,
    manager: str,
    subresource: str,
    *,
    force: bool,
) -> tuple[wire.Object, tuple[store.Manager, ...]]:
    """The object with the fields applied, and its managers. Raises RefusedError."""
    del kind, manager, subresource, force
    return patches.merge(item.copy(), body), item.managers

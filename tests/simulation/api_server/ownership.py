"""Which manager owns which fields after an update; and when a generation ends."""

from tests.simulation.api_server import kinds, store, wire

OUTSIDE = {"apiVersion", "kind", "metadata"}


def has_new_generation(kind: kinds.Kind, old: wire.Object, new: wire.Object) -> bool:
    """Whether more than metadata and status has changed; status counts without a subresource."""
    ignored = OUTSIDE | {"status"} if kind.status else OUTSIDE
    return any(old.get(key) != new.get(key) for key in (old.keys() | new.keys()) - ignored)


def after_update(
    kind: kinds.Kind,
    item: store.Item | None,
    old: wire.Object | None,
    new: wire.Object,
    manager: str,
    subresource: str,
) -> tuple[store.Manager, ...]:
    """The managers once an object was created or updated by other means than apply."""
    del kind, old, new, manager, subresource
    return item.managers if item is not None else ()

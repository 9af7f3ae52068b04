"""PodDisruptionBudgets and ResourceQuotas: from the wire to the model."""

from collections.abc import Mapping

from vscheduler.core.model import resources, snapshot
from vscheduler.mirror.decode import fields, quantities, wire
from vscheduler.mirror.translate import pod_constraints

REQUESTS = "requests."
"""Beginning of a quota's names for what pods request in sum."""

HUGE_PAGES = "hugepages-"
STORAGE = f"{REQUESTS}storage"
"""What volume claims ask for: nothing that pods request."""

_PLAIN = {
    "count/pods": resources.PODS,
    **{name: name for name in (resources.CPU, resources.MEMORY, resources.PODS)},
    "ephemeral-storage": "ephemeral-storage",
}


def budget(budget: wire.PodDisruptionBudget) -> snapshot.Budget:
    """A budget. One that no controller has looked at yet allows nothing, as on the server."""
    selector = budget.spec.selector
    return snapshot.Budget(
        namespace=budget.metadata.namespace,
        name=budget.metadata.name,
        selector=None if selector is None else pod_constraints.of_labels(selector, "spec.selector"),
        allowed=max(0, budget.status.disruptions_allowed),
    )


def quota(quota: wire.ResourceQuota) -> snapshot.Quota | None:
    """A quota; None where it counts some of the namespace's pods only (scopes), or none at all.

    Volcano's plugin takes no notice of scopes, and so refuses jobs for the sake of pods that the
    quota doesn't count. The server still enforces those, pod by pod.
    """
    if quota.spec.scopes or quota.spec.scope_selector is not None:
        return None
    hard = _amounts(quota.spec.hard, "spec.hard")
    used = _amounts(quota.status.used, "status.used")
    if not hard:
        return None
    return snapshot.Quota(
        namespace=quota.metadata.namespace,
        name=quota.metadata.name,
        hard={name: min(amounts) for name, amounts in hard.items()},
        used={name: max(amounts) for name, amounts in used.items() if name in hard},
    )


def _amounts(listed: Mapping[str, quantities.Quantity], field: str) -> dict[str, tuple[int, ...]]:
    """By resource; a quota may have two names for one (`cpu` and `requests.cpu`)."""
    found: dict[str, tuple[int, ...]] = {}
    for key, quantity in sorted(listed.items()):
        name = _resource(key)
        if name is not None and not name.startswith(fields.QUOTA_PREFIX):
            try:
                amounts = fields.totals({name: quantity}, field).values()
            except fields.FieldError as error:
                raise fields.FieldError(f"{field}.{key}", error.message) from error
            found[name] = (*found.get(name, ()), *amounts)
    return found


def _resource(key: str) -> str | None:
    """The resource of pods that a quota's name is about; None for all other things it may limit."""
    if key in _PLAIN or key.startswith(HUGE_PAGES):
        return _PLAIN.get(key, key)
    if key.startswith(REQUESTS) and key != STORAGE:
        return key.removeprefix(REQUESTS)
    return None

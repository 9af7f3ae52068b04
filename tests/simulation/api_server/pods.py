"""Deletion, and the subresources of pods: binding and eviction."""

from collections.abc import Mapping
from typing import Any

from tests.simulation.api_server import kinds, metadata, selectors, wire
from tests.simulation.api_server.kinds import Kind
from tests.simulation.api_server.store import Item
from tests.simulation.api_server.wire import Clock, Object, RefusedError
from tests.simulation.api_server.writes import Outcome, Target, Writes

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
BUDGET = "DisruptionBudget"
UNBINDABLE = "simulation/unbindable"
"""Label of pods whose bindings an admission policy denies."""
FINISHED = ("Succeeded", "Failed")


class Deletions:
    """Deletes objects, binds pods and evicts them."""

    def __init__(self, made: Writes, clock: Clock) -> None:
        self._writes = made
        self._clock = clock

    def delete(self, target: Target, asked: Mapping[str, Any], *, dry_run: bool) -> Outcome:
        """Delete an object, or begin to. Raises RefusedError."""
        kind = target.kind
        item = self._writes.existing(target)
        _check_preconditions(target, item, asked.get("preconditions") or {})
        old = item.object
        found = dict(old["metadata"])
        grace = _grace(kind, old, asked)
        finalizers = _finalizers(found, asked)
        if finalizers:
            found["finalizers"] = finalizers
        else:
            found.pop("finalizers", None)
        at_once = grace == 0 and not finalizers and kind is not kinds.NAMESPACES
        if at_once and kind is not kinds.PODS:
            return self._remove(target, item, old, dry_run=dry_run)
        changed = self._mark(kind, found, grace) or finalizers != old["metadata"].get(
            "finalizers", []
        )
        whole = {**old, "metadata": found}
        if kind is kinds.NAMESPACES:
            whole["status"] = {"phase": "Terminating"}
        if dry_run:
            last = Item(item.key, item.revision, whole)
            return Outcome(code=200, item=last, before=old)
        if changed:
            item = self._writes.store.put(kind, item.key, whole, item.managers)
        if at_once:
            return self._remove(target, item, old, dry_run=False)
        return Outcome(code=200, item=item, before=old)

    def _mark(self, kind: Kind, found: Object, grace: int) -> bool:
        """Note in the metadata that the object is being deleted; return whether that is news."""
        begun = "deletionTimestamp" in found
        if begun and grace >= found["deletionGracePeriodSeconds"]:
            return False
        if kind.generations and not begun:
            found["generation"] = found.get("generation", 0) + 1
        found["deletionTimestamp"] = metadata.stamp(self._clock.now() + grace)
        found["deletionGracePeriodSeconds"] = grace
        return True

    def _remove(self, target: Target, item: Item, before: Object, *, dry_run: bool) -> Outcome:
        """Take an object away; its metadata says that it is being deleted only if it did before."""
        brief = target.kind is not kinds.PODS
        if dry_run:
            return Outcome(code=200, item=item, before=before, brief=brief)
        whole = {**item.object, "metadata": dict(item.object["metadata"])}
        last = self._writes.store.remove(target.kind, item.key, whole)
        return Outcome(code=200, item=last, before=before, gone=True, brief=brief)

    def finalize(self, target: Target, body: Object) -> Outcome:
        """Replace the finalizers of a namespace's spec; the last one gone, it goes."""
        item = self._writes.existing(target)
        whole = item.copy()
        whole["spec"] = body.get("spec") or {}
        if whole["spec"].get("finalizers") or "deletionTimestamp" not in whole["metadata"]:
            stored = self._writes.store.put(target.kind, item.key, whole, item.managers)
            return Outcome(code=200, item=stored, before=item.object)
        last = self._writes.store.remove(target.kind, item.key, whole)
        return Outcome(code=200, item=last, before=item.object, gone=True)

    def bind(self, target: Target, body: Object, *, dry_run: bool) -> Outcome:
        """Give a pod its node. Raises RefusedError."""
        given = metadata.tidied(body)
        aim = body.get("target") or {}
        node = aim.get("name")
        if not node:
            raise RefusedError(500, "", "target.name: Required value")
        if aim.get("kind") not in (None, "", "Node"):
            text = 'target.kind: Unsupported value: "{}": supported values: "Node", "<empty>"'
            raise RefusedError(500, "", text.format(aim["kind"]))
        item = self._writes.existing(target)
        _check_stored(target, item, given)
        why = _obstacle(item.object, target.name)
        if why:
            raise wire.conflict(kinds.PODS, target.name, why, part="/binding")
        if UNBINDABLE in (item.object["metadata"].get("labels") or {}):
            raise wire.forbidden(kinds.PODS, target.name, "an admission policy denies the binding")
        now = self._writes.stamp()

        def alter(pod: Object) -> None:
            pod["spec"]["nodeName"] = node
            found = pod["metadata"]
            if annotations := given.get("annotations"):
                found["annotations"] = {**found.get("annotations", {}), **annotations}
            if labels := given.get("labels"):
                found["labels"] = {**found.get("labels", {}), **labels}
            status = pod.setdefault("status", {})
            set_condition(
                status, {"type": "PodScheduled", "status": "True", "lastProbeTime": None}, now
            )

        bound = item if dry_run else self._writes.change(target, alter)
        return Outcome(code=201, item=bound, before=item.object, brief=True)

    def evict(self, target: Target, body: Object, *, dry_run: bool) -> Outcome:
        """Delete a pod unless its PodDisruptionBudget forbids that. Raises RefusedError."""
        if metadata.tidied(body).get("name", target.name) != target.name:
            raise wire.bad_request("name in URL does not match name in Eviction object")
        asked = dict(body.get("deleteOptions") or {})
        dry_run = dry_run or bool(asked.get("dryRun"))
        item = self._writes.existing(target)
        _check_preconditions(target, item, asked.get("preconditions") or {})
        pod = item.object
        status = pod.get("status") or {}
        exempt = status.get("phase") in ("Pending", *FINISHED)
        if not exempt and "deletionTimestamp" not in pod["metadata"]:
            self._charge(item, dry_run=dry_run)
        if dry_run:
            return Outcome(code=201, item=item, before=pod, brief=True)
        now = self._writes.stamp()

        def alter(whole: Object) -> None:
            told = {
                "type": "DisruptionTarget",
                "status": "True",
                "lastProbeTime": None,
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            }
            set_condition(whole.setdefault("status", {}), told, now)

        if "deletionTimestamp" not in pod["metadata"]:
            self._writes.change(target, alter)
        done = self.delete(target, asked, dry_run=False)
        return Outcome(code=201, item=done.item, before=pod, gone=done.gone, brief=True)

    def _charge(self, item: Item, *, dry_run: bool) -> None:
        """Take one from the budget of the pod, if it has one. Raises RefusedError."""
        found = self._budgets(item.object)
        if not found:
            return
        if len(found) > 1:
            text = (
                "This pod has more than one PodDisruptionBudget, which the eviction subresource "
                "does not support."
            )
            raise RefusedError(500, "InternalError", f"Internal error occurred: {text}")
        budget = found[0].object
        status = budget.get("status") or {}
        if not _is_ready(item.object) and _is_healthy(status):
            return
        name = budget["metadata"]["name"]
        if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
            text = f"The disruption budget {name} is still being processed by the server."
            raise _too_many(text, text, seconds=10)
        if status.get("disruptionsAllowed", 0) <= 0:
            healthy, needed = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
            cause = (
                f"The disruption budget {name} needs {needed} healthy pods and has {healthy} "
                "currently"
            )
            raise _too_many(
                "Cannot evict pod as it would violate the pod's disruption budget.", cause
            )
        if dry_run:
            return
        now, pod = self._writes.stamp(), item.object["metadata"]["name"]

        def alter(whole: Object) -> None:
            there = whole["status"]
            there["disruptionsAllowed"] -= 1
            there.setdefault("disruptedPods", {})[pod] = now

        namespace = budget["metadata"]["namespace"]
        self._writes.change(Target(kind=kinds.BUDGETS, namespace=namespace, name=name), alter)

    def _budgets(self, pod: Object) -> list[Item]:
        labels = pod["metadata"].get("labels") or {}
        return [
            item
            for item in self._writes.store.of(kinds.BUDGETS).within(pod["metadata"]["namespace"])
            if selectors.of_object((item.object.get("spec") or {}).get("selector"))(labels)
        ]


def _too_many(message: str, cause: str, *, seconds: int = 0) -> RefusedError:
    details: Object = {"causes": [{"reason": BUDGET, "message": cause}]}
    if seconds:
        details["retryAfterSeconds"] = seconds
    return RefusedError(
        429,
        "TooManyRequests",
        message,
        details=details,
        headers={"retry-after": str(seconds)} if seconds else None,
    )


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in conditions
    )


def _is_healthy(status: Object) -> bool:
    """Whether a budget has all the pods it needs, so that an unready pod may always go."""
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def _obstacle(pod: Object, name: str) -> str:
    """Why a pod can't be bound, or nothing."""
    if "deletionTimestamp" in pod["metadata"]:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if node := pod["spec"].get("nodeName"):
        return f'pod {name} is already assigned to node "{node}"'
    if pod["spec"].get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _check_stored(target: Target, item: Item, given: Object) -> None:
    """Preconditions of a binding: the UID and resourceVersion in its metadata."""
    stored = item.object["metadata"]
    for what, key in (("UID", "uid"), ("ResourceVersion", "resourceVersion")):
        if given.get(key) and given[key] != stored[key]:
            why = wire.precondition(what, given[key], stored[key])
            raise wire.conflict(kinds.PODS, target.name, why)


def _check_preconditions(target: Target, item: Item, wanted: Mapping[str, Any]) -> None:
    stored = item.object["metadata"]
    for what, key, happened in (
        ("UID", "uid", "deleted and then recreated"),
        ("ResourceVersion", "resourceVersion", "modified"),
    ):
        if wanted.get(key) and wanted[key] != stored[key]:
            text = (
                f"the {what} in the precondition ({wanted[key]}) does not match the {what} in "
                f"record ({stored[key]}). The object might have been {happened}"
            )
            raise wire.unlike(target.kind, target.name, text)


def _finalizers(found: Object, asked: Mapping[str, Any]) -> list[str]:
    """The finalizers, with the ones that the way of deletion adds or removes."""
    policy = asked.get("propagationPolicy")
    if policy is None:
        return list(found.get("finalizers", []))
    added = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(policy, "")
    kept = [each for each in found.get("finalizers", []) if each not in (FOREGROUND, ORPHAN)]
    return [*kept, added] if added else kept


def _grace(kind: Kind, pod: Object, asked: Mapping[str, Any]) -> int:
    """For how many seconds a pod may go on; other kinds go at once."""
    if kind is not kinds.PODS:
        return 0
    if not pod["spec"].get("nodeName") or (pod.get("status") or {}).get("phase") in FINISHED:
        return 0
    grace = asked.get("gracePeriodSeconds")
    if grace is None:
        grace = pod["metadata"].get("deletionGracePeriodSeconds")
    if grace is None:
        grace = pod["spec"].get("terminationGracePeriodSeconds", 30)
    return int(grace)


def set_condition(status: Object, condition: Object, now: str) -> None:
    """Set a condition of a pod; the time of its last transition changes with its status."""
    conditions = status.setdefault("conditions", [])
    for number, each in enumerate(conditions):
        if each.get("type") == condition["type"]:
            since = each.get("lastTransitionTime", now)
            same = each.get("status") == condition["status"]
            conditions[number] = {**condition, "lastTransitionTime": since if same else now}
            return
    conditions.append({**condition, "lastTransitionTime": now})

"""The shipped roles, for whoever runs a scheduler in tests, and what an audit log says of them."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from sandbox.client import Client
from sandbox.control_plane import ControlPlane
from vscheduler.daemon.leader_election import election_settings
from vscheduler.daemon.settings import PARTS

Document = dict[str, Any]

MANIFESTS = Path(__file__).parents[2] / "manifests"
NAMESPACE = election_settings.DEFAULT_NAMESPACE
TESTED = "vscheduler"
"""The service account of the daemons under test."""
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
GROUP = "rbac.authorization.k8s.io"
DECISION = "authorization.k8s.io/decision"
EVERYBODYS = "authorization.k8s.io"
"""The API group of reviews, which all users may ask for."""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource, `pods/status` among them; of one object where it has a name."""

    group: str
    resource: str
    verb: str
    name: str = ""


CLAIMS = "resourceclaims"
ALLOCATES = Right("resource.k8s.io", f"{CLAIMS}/binding", "patch")


def permit(plane: ControlPlane, user: str, *schedulers: str) -> Path:
    """Let a user run whole instances of these schedulers; returns a kubeconfig of the user."""
    _bind(plane.api, user, {"kind": "User", "name": user, "apiGroup": GROUP}, schedulers)
    return plane.kubeconfig_for(user)


def permit_account(plane: ControlPlane, name: str, *schedulers: str) -> Path:
    """Let a service account do so; returns a kubeconfig with a token of the account."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    plane.api.apply(f"{ACCOUNTS}/{name}", account)
    subject = {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": name}
    _bind(plane.api, name, subject, schedulers)
    return plane.kubeconfig_for_service_account(NAMESPACE, name)


def account(name: str) -> str:
    """The user that a service account of the scheduler's namespace is."""
    return f"system:serviceaccount:{NAMESPACE}:{name}"


def cluster_role(half: str) -> Document:
    """What is shipped for this half to do in all namespaces."""
    (found,) = (
        document
        for document in _documents("cluster/roles.yaml")
        if document["metadata"]["name"] == f"vscheduler-{half}"
    )
    return found


def lease_rules(half: str) -> list[Document]:
    """What is shipped for this half to do with Leases."""
    (found,) = (
        document for document in _documents(f"{half}/account.yaml") if document["kind"] == "Role"
    )
    return list(found["rules"])


def granted(half: str) -> set[Right]:
    """All that this half may do."""
    return {
        Right(group, resource, verb, name)
        for rule in (*cluster_role(half)["rules"], *lease_rules(half))
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", ("",))
    }


def used(log: Path, user: str) -> set[Right]:
    """What a user has been allowed, by an audit log; Leases by name, but where they are made.

    No log has what the API server asks for beside the right to a request: who allocates a claim for
    devices needs one more.
    """
    found = _used(log, user)
    return (
        found | {ALLOCATES} if replace(ALLOCATES, resource=f"{CLAIMS}/status") in found else found
    )


def _used(log: Path, user: str) -> set[Right]:
    return {
        Right(
            target.get("apiGroup", ""),
            "/".join(target[key] for key in ("resource", "subresource") if target.get(key)),
            event["verb"],
            target["name"] if target["resource"] == "leases" and event["verb"] != "create" else "",
        )
        for event in _events(log, user)
        if event["annotations"].get(DECISION) == "allow"
        and (target := event.get("objectRef", {})).get("resource")
        and target.get("apiGroup") != EVERYBODYS
    }


def refused(log: Path, users: Collection[str]) -> list[str]:
    """What RBAC refused these users, one line each."""
    return sorted(
        {
            f"{user}: {event['verb']} {event['requestURI']}"
            for user in users
            for event in _events(log, user)
            if event["annotations"].get(DECISION) == "forbid"
        }
    )


def denied(log: Path, users: Collection[str]) -> list[str]:
    """What admission policies refused these users, one line each."""
    return sorted(
        {
            f"{user}: {event['verb']} {event['requestURI']}: {message}"
            for user in users
            for event in _events(log, user)
            if "ValidatingAdmissionPolicy"
            in (message := event.get("responseStatus", {}).get("message", ""))
        }
    )


def _events(log: Path, user: str) -> Iterator[Document]:
    """A user's requests that were authorized or not, whole lines only."""
    mark = f'"username":{json.dumps(user)}'.encode()
    with log.open("rb") as lines:
        for line in lines:
            if mark in line and line.endswith(b"\n"):
                event = json.loads(line)
                if event["user"]["username"] == user and event.get("annotations"):
                    yield event


def _documents(file: str) -> list[Document]:
    return list(yaml.safe_load_all((MANIFESTS / file).read_text()))


def _bind(api: Client, name: str, subject: Document, schedulers: Sequence[str]) -> None:
    """Give the subject the roles of both halves, with the Leases that these schedulers have."""
    rules = [rule for half in PARTS for rule in lease_rules(half)]
    leases = Document(kind="Role", apiVersion=f"{GROUP}/v1", metadata={"name": name})
    leases["rules"] = [_renamed(rule, schedulers or ("vscheduler",)) for rule in rules]
    here = f"{RBAC}/namespaces/{NAMESPACE}"
    api.apply(f"{here}/roles/{name}", leases)
    api.apply(f"{here}/rolebindings/{name}", _binding("RoleBinding", name, leases, subject))
    for half in PARTS:
        role = cluster_role(half)
        called = role["metadata"]["name"]
        api.apply(f"{RBAC}/clusterroles/{called}", role)
        binding = _binding("ClusterRoleBinding", f"{name}.{half}", role, subject)
        api.apply(f"{RBAC}/clusterrolebindings/{binding['metadata']['name']}", binding)


def _renamed(rule: Document, schedulers: Sequence[str]) -> Document:
    """The rule for the Leases of these schedulers in place of those of the shipped one."""
    if "resourceNames" not in rule:
        return rule
    names = {
        lease
        if lease == election_settings.CONTROLLERS_LEASE
        else lease.replace("vscheduler", scheduler, 1)
        for lease in rule["resourceNames"]
        for scheduler in schedulers
    }
    return {**rule, "resourceNames": sorted(names)}


def _binding(kind: str, name: str, role: Document, subject: Document) -> Document:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "subjects": [subject],
        "roleRef": {"kind": role["kind"], "name": role["metadata"]["name"], "apiGroup": GROUP},
    }

"""What a real API server makes of the CRDs: what it takes, refuses, fills in and shows.

Objects go in with dryRun=All where nothing has to stay, and with fieldValidation=Strict, so that a
field that the schema doesn't know is an error and not dropped in silence.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sandbox.client import PATCH_TYPES, Answer, Client, Object
from sandbox.control_plane import ControlPlane
from tests import crd_cases, patience

GROUP = "/apis/scheduling.volcano.sh/v1beta1"
QUEUES = f"{GROUP}/queues"
GROUPS = f"{GROUP}/namespaces/default/podgroups"
HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
WHERE = {"queues": QUEUES, "podgroups": GROUPS, "hypernodes": HYPER_NODES}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
APPLY = {"content-type": PATCH_TYPES["apply"]}
# What is too long to be written out: one more than each bound, which itself is taken.
BOUNDS = [
    (lambda n: {"capability": {f"r{i}": 1 for i in range(n)}}, 64, "spec.capability"),
    (lambda n: {"capability": {"cpu": "0" * n}}, 64, "spec.capability.cpu"),
    (lambda n: {"parent": "a" * n}, 253, "spec.parent"),
    (lambda n: {"type": "a" * n}, 253, "spec.type"),
]
STORED_BEFORE = [
    ("podgroups", {"minResources": {"cpu": -1}}),
    ("queues", {"guarantee": {"resource": {"cpu": 2}}, "deserved": {"cpu": 1}}),
    ("queues", {"parent": "old"}),
]
DOMAIN = {
    "tier": 1,
    "tierName": "rack",
    "members": [{"type": "Node", "selector": {"regexMatch": {"pattern": "^r1-"}}}],
}

Spec = dict[str, Any]
Keep = Callable[..., Object]


@pytest.fixture
def api(plane: ControlPlane) -> Client:
    """The API server, which has this project's CRDs."""
    return plane.api


@pytest.fixture
def keep(api: Client) -> Iterator[Keep]:
    """Create an object for the length of one test, and give it as stored."""
    paths = []

    def create(plural: str, name: str, **parts: Any) -> Object:
        paths.append(f"{WHERE[plural]}/{name}")
        return api.create(WHERE[plural], crd_cases.named(plural, name, **parts))

    yield create
    for path in paths:
        api.delete(path)


def dry_run(api: Client, plural: str, **parts: Any) -> Answer:
    """Create an object called `me` without keeping it."""
    return try_out(api, WHERE[plural], crd_cases.named(plural, "me", **parts))


def try_out(api: Client, path: str, body: Object) -> Answer:
    """Create an object without keeping it; unknown fields are errors."""
    return api.ask("POST", f"{path}?dryRun=All&fieldValidation=Strict", body)


def assert_refused(answer: Answer, says: dict[str, str]) -> None:
    """Assert a 422 whose causes are these fields, apart from notes without a field."""
    assert answer.status == 422, answer.text
    causes = {cause["field"]: cause["message"] for cause in answer.body["details"]["causes"]}
    causes.pop("<nil>", None)
    assert causes.keys() == says.keys()
    for field, words in says.items():
        assert words in causes[field]


@pytest.mark.parametrize("plural", WHERE)
def test_definition_is_established_without_complaints(api: Client, plural: str) -> None:
    """The schema is structural, its rules compile within their budget, and its names are free."""
    again = crd_cases.definition(plural)
    stored = api.get(f"{DEFINITIONS}/{again['metadata']['name']}")
    found = {condition["type"]: condition["status"] for condition in stored["status"]["conditions"]}
    assert found == {"NamesAccepted": "True", "Established": "True"}
    path = f"{DEFINITIONS}?dryRun=All&fieldValidation=Strict"
    again["metadata"]["name"] = f"{plural}.another.example.com"
    again["spec"]["group"] = "another.example.com"
    assert api.ask("POST", path, again).status == 201


@pytest.mark.parametrize(("plural", "spec"), crd_cases.TAKEN)
def test_what_volcano_takes_is_taken(api: Client, plural: str, spec: Spec) -> None:
    """An object that works with Volcano needs no change."""
    answer = dry_run(api, plural, spec=spec)
    assert answer.status == 201, answer.text


@pytest.mark.parametrize(("plural", "spec", "says"), crd_cases.REFUSED)
def test_what_is_wrong_is_refused_with_advice(
    api: Client, plural: str, spec: Spec, says: dict[str, str]
) -> None:
    """A refusal names each wrong field and says what to write instead."""
    assert_refused(dry_run(api, plural, spec=spec), says)


@pytest.mark.parametrize(("spec", "most", "field"), BOUNDS, ids=[field for *_, field in BOUNDS])
def test_bound_is_where_it_is_said_to_be(
    api: Client, spec: Callable[[int], Spec], most: int, field: str
) -> None:
    """The longest map, quantity and name are taken, and one more is refused with the bound."""
    assert dry_run(api, "queues", spec=spec(most)).status == 201
    assert_refused(dry_run(api, "queues", spec=spec(most + 1)), {field: str(most)})


def test_rules_have_budget_for_the_largest_objects(api: Client) -> None:
    """The API server stops rules that cost too much; the largest objects stay within that."""
    amounts = {f"example.com/{i:050}": "0" * 63 + "1" for i in range(64)}
    spec: Spec = {"guarantee": {"resource": amounts}, "deserved": amounts, "capability": amounts}
    assert dry_run(api, "queues", spec=spec).status == 201
    expression = {"key": "a", "operator": "In", "values": ["x"]}
    policy = {"labelSelector": {"matchExpressions": [expression] * 16}}
    spec = {"minResources": amounts, "subGroupPolicy": [policy] * 1024}
    assert dry_run(api, "podgroups", spec=spec).status == 201
    member = {"type": "Node", "selector": {"labelMatch": {"matchExpressions": [expression] * 2}}}
    assert dry_run(api, "hypernodes", spec={"tier": 1, "members": [member] * 10_000}).status == 201


def test_defaults_are_filled_in_even_without_a_spec(api: Client) -> None:
    """A Queue or PodGroup that says nothing gets what Volcano means by nothing."""
    made = dry_run(api, "queues").body
    assert made["spec"] == {"weight": 1, "reclaimable": True, "dequeueStrategy": "traverse"}
    assert dry_run(api, "podgroups").body["spec"] == {"queue": "default"}
    made = dry_run(api, "podgroups", spec={"subGroupPolicy": [{"networkTopology": {}}]}).body
    assert made["spec"]["subGroupPolicy"] == [
        {"subGroupSize": 1, "minSubGroups": 0, "networkTopology": {"mode": "hard"}}
    ]


@pytest.mark.parametrize("plural", WHERE)
def test_annotations_and_labels_are_the_users_own(api: Client, plural: str) -> None:
    """Annotations of Volcano's, or of nobody's, are no reason to refuse an object."""
    words = {"volcano.sh/hierarchy": "root/eng/dev", "volcano.sh/hierarchy-weights": "1/2/8"}
    metadata = {"annotations": words, "labels": {"team.example.com/x": "y"}}
    spec = {"spec": DOMAIN} if plural == "hypernodes" else {}
    assert dry_run(api, plural, metadata=metadata, **spec).status == 201


def test_tables_have_volcanos_columns(api: Client, keep: Keep) -> None:
    """First what `kubectl get` shows with Volcano's CRDs, so that scripts go on reading it."""
    keep("queues", "table", spec={"parent": "above"})
    keep("podgroups", "table", spec={"minMember": 2}, status={"phase": "Running", "running": 3})

    table = api.ask("GET", f"{QUEUES}/table", headers=TABLE).body
    assert [column["name"] for column in table["columnDefinitions"]][:2] == ["Name", "PARENT"]
    assert table["rows"][0]["cells"][:2] == ["table", "above"]

    table = api.ask("GET", f"{GROUPS}/table", headers=TABLE).body
    assert [(c["name"], c["type"], c["priority"]) for c in table["columnDefinitions"]][:6] == [
        ("Name", "string", 0),
        ("STATUS", "string", 0),
        ("minMember", "integer", 0),
        ("RUNNINGS", "integer", 0),
        ("AGE", "date", 0),
        ("QUEUE", "string", 1),
    ]
    name, phase, least, running, _, queue = table["rows"][0]["cells"][:6]
    assert (name, phase, least, running, queue) == ("table", "Running", 2, 3, "default")


def test_tables_show_what_a_queue_has(api: Client, keep: Keep) -> None:
    """State, weight, CPU of the CPU that it deserves, and what waits; the rest with `-o wide`."""
    keep("queues", "table", spec={"weight": 3})
    amounts = {"allocated": {"cpu": "20.5", "memory": "7Gi"}, "deserved": {"cpu": "25"}}
    counts = {"pending": 2, "inqueue": 0, "running": 5}
    status = {"state": "Open", "share": 0.82, **amounts, **counts}
    api.patch(f"{QUEUES}/table/status", {"status": status})
    assert shown(api, f"{QUEUES}/table", 0) == {
        "PARENT": None,
        "STATE": "Open",
        "WEIGHT": 3,
        "CPU": "20.5",
        "DESERVED-CPU": "25",
        "SHARE": 0.82,
        "PENDING": 2,
    }
    wide = {"MEMORY": "7Gi", "DESERVED-MEMORY": None, "INQUEUE": 0, "RUNNING": 5}
    assert shown(api, f"{QUEUES}/table", 1) == wide


def test_tables_show_whose_a_podgroup_is_and_why_it_waits(api: Client, keep: Keep) -> None:
    """In a word, and with `-o wide` with numbers."""
    there = api.get("/api/v1/namespaces/default")["metadata"]
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": there["name"], "uid": there["uid"]}
    why = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughTasks", "message": "few"}
    keep(
        "podgroups",
        "table",
        metadata={"ownerReferences": [owner]},
        status={"conditions": [{"type": "Scheduled", "status": "False", "reason": "x"}, why]},
    )
    cells = shown(api, f"{GROUPS}/table", 0)
    assert (cells["KIND"], cells["WORKLOAD"]) == ("Namespace", there["name"])
    assert cells["REASON"] == "NotEnoughTasks"
    assert shown(api, f"{GROUPS}/table", 1)["MESSAGE"] == "few"


def test_tables_show_what_is_wrong_with_a_hyper_node(api: Client, keep: Keep) -> None:
    """Volcano's columns come first; Volcano's controller, too, writes the count with the status."""
    keep("hypernodes", "table", spec=DOMAIN)
    ready = {"type": "Ready", "status": "False", "reason": "InvalidMembers", "message": "why"}
    status = {"nodeCount": 3, "conditions": [ready]}
    api.patch(f"{HYPER_NODES}/table/status", {"status": status})
    assert shown(api, f"{HYPER_NODES}/table", 0) == {
        "Tier": "1",
        "TierName": "rack",
        "NodeCount": 3,
        "READY": "False",
    }
    assert shown(api, f"{HYPER_NODES}/table", 1) == {"MESSAGE": "why"}


def shown(api: Client, path: str, priority: int) -> dict[str, Any]:
    """The cells of the only row that have this priority, but for names and ages."""
    answer = api.ask("GET", path, headers=TABLE)
    assert answer.status == 200, answer.text
    table = answer.body
    (row,) = table["rows"]
    return {
        column["name"]: cell
        for column, cell in zip(table["columnDefinitions"], row["cells"], strict=True)
        if column["priority"] == priority and column["name"] not in {"Name", "AGE", "Age"}
    }


def test_discovery_has_volcanos_names(api: Client) -> None:
    """Short names and scopes are Volcano's; PodGroup has no status subresource."""
    resources = api.get(GROUP)["resources"]
    assert {r["name"]: (r["kind"], r["namespaced"], r.get("shortNames")) for r in resources} == {
        "queues": ("Queue", False, ["q", "queue-v1beta1"]),
        "queues/status": ("Queue", False, None),
        "podgroups": ("PodGroup", True, ["pg", "podgroup-v1beta1"]),
    }
    resources = api.get("/apis/topology.volcano.sh/v1alpha1")["resources"]
    assert {r["name"]: (r["kind"], r["namespaced"], r.get("shortNames")) for r in resources} == {
        "hypernodes": ("HyperNode", False, ["hn"]),
        "hypernodes/status": ("HyperNode", False, None),
    }


def test_podgroup_status_is_written_by_a_plain_update(api: Client, keep: Keep) -> None:
    """Volcano's clients write status with the whole object, with nulls for times unset."""
    group = keep("podgroups", "plain", spec={"minMember": 1})
    condition = {"type": "Scheduled", "status": "True", "transitionID": "7"}
    group["status"] = {"phase": "Inqueue", "succeeded": 0, "failed": 0}
    group["status"]["conditions"] = [condition | {"lastTransitionTime": None}]
    stored = api.replace(f"{GROUPS}/plain", group)
    assert stored["status"] == group["status"] | {"conditions": [condition]}

    stored["status"] = {"phase": "Ready", "running": -1, "succeeded": -1, "failed": -1}
    assert_refused(
        api.ask("PUT", f"{GROUPS}/plain", stored),
        {"status.phase": '"Pending", "Inqueue", "Running", "Unknown", "Completed"'}
        | dict.fromkeys(["status.running", "status.succeeded", "status.failed"], "equal to 0"),
    )


def test_podgroup_status_is_written_by_a_merge_patch(api: Client, keep: Keep) -> None:
    """A merge patch keeps the rest of status, replaces conditions whole, raises the generation."""
    first, second = ({"type": kind, "status": "True"} for kind in ("Unschedulable", "Scheduled"))
    group = keep("podgroups", "merge", status={"phase": "Pending", "conditions": [first]})
    stored = api.patch(f"{GROUPS}/merge", {"status": {"conditions": [second]}})
    assert stored["status"] == {"phase": "Pending", "conditions": [second]}
    assert stored["metadata"]["generation"] == group["metadata"]["generation"] + 1


@pytest.mark.parametrize("extra", [{}, {"allocated": None, "reservation": {}}], ids=str)
def test_queue_status_needs_nothing_but_what_is_written(
    api: Client, keep: Keep, extra: Spec
) -> None:
    """A state alone is enough (Volcano once required allocated), and Go's nulls are passed over."""
    queue = keep("queues", "state", status={"state": "Closed"})
    assert "status" not in queue  # only the subresource writes it
    stored = api.replace(f"{QUEUES}/state/status", queue | {"status": {"state": "Open"} | extra})
    assert stored["status"]["state"] == "Open"
    assert stored["metadata"]["generation"] == queue["metadata"]["generation"]


def test_queue_status_refuses_what_would_break_its_readers(api: Client, keep: Keep) -> None:
    """One quantity that doesn't parse would fail every Go client's list of Queues."""
    keep("queues", "broken")
    counters = ("pending", "inqueue", "running", "unknown", "completed", "share")
    wrong = {"cpu": "1e1.5"}
    amounts = ("allocated", "deserved", "request", "realCapability")
    status: Spec = dict.fromkeys(counters, -1) | dict.fromkeys(amounts, wrong)
    status |= {"state": "Ajar", "reservation": {"resource": wrong}}
    status["conditions"] = [{"type": "", "status": "Maybe", "observedGeneration": -1}]
    says = {f"status.{name}": "should be greater than or equal to 0" for name in counters}
    says |= {f"status.{name}.cpu": "should match" for name in (*amounts, "reservation.resource")}
    says |= {
        "status.state": 'supported values: "Open", "Closed", "Closing", "Unknown"',
        "status.conditions[0].type": "should be at least 1 chars long",
        "status.conditions[0].status": 'supported values: "True", "False", "Unknown"',
        "status.conditions[0].observedGeneration": "should be greater than or equal to 0",
    }
    headers = {"content-type": PATCH_TYPES["merge"]}
    path = f"{QUEUES}/broken/status"
    assert_refused(api.ask("PATCH", path, {"status": status}, headers=headers), says)


def test_two_schedulers_write_a_queues_conditions_side_by_side(api: Client, keep: Keep) -> None:
    """Server-side apply merges conditions by type: each writer changes its own."""
    keep("queues", "shared")

    def apply(manager: str, **status: Any) -> dict[str, str]:
        body = crd_cases.named("queues", "shared", status=status)
        path = f"{QUEUES}/shared/status"
        stored = api.patch(path, body, kind="apply", fieldManager=manager, fieldValidation="Strict")
        return {c["type"]: c["status"] for c in stored["status"].get("conditions", [])}

    def condition(kind: str, status: str) -> Spec:
        told = {"reason": "Fits", "message": "3 of 4 cpu", "observedGeneration": 1}
        return {"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"} | told

    apply("one", conditions=[condition("One", "True")])
    assert apply("two", conditions=[condition("Two", "True")]) == {"One": "True", "Two": "True"}
    assert apply("one", conditions=[condition("One", "False")]) == {"One": "False", "Two": "True"}
    assert apply("one") == {"Two": "True"}


def test_figures_of_two_schedulers_never_mix(api: Client, keep: Keep) -> None:
    """A second scheduler's figures are a conflict, and replace the first's whole when forced."""
    keep("queues", "figures")
    path = f"{QUEUES}/figures/status"
    names = ("deserved", "request", "realCapability")
    first, second = ({"cpu": "2500m", "memory": 1}, {"cpu": "4"})

    def apply(manager: str, amounts: Spec, *, force: bool) -> Answer:
        body = crd_cases.named(
            "queues", "figures", status=dict.fromkeys(names, amounts) | {"share": 0.96}
        )
        query = {"fieldManager": manager, "force": str(force).lower()}
        return api.ask("PATCH", path, body, query=query, headers=APPLY)

    assert apply("one", first, force=False).status == 200
    assert apply("two", second, force=False).status == 409
    stored = apply("two", second, force=True).body["status"]
    assert stored == dict.fromkeys(names, second) | {"share": 0.96}


@pytest.mark.parametrize(("case", "plural", "spec"), [(n, *c) for n, c in enumerate(STORED_BEFORE)])
def test_object_stored_before_the_rules_can_still_be_worked_with(
    api: Client, case: int, plural: str, spec: Spec
) -> None:
    """Rules that come with an upgrade don't stop status or labels from being written."""
    group = f"upgrade{case}.example.com"
    strict = crd_cases.definition(plural)
    strict["metadata"]["name"] = f"{plural}.{group}"
    strict["spec"]["group"] = group
    lax = copy.deepcopy(strict)
    drop_rules(lax)
    place = f"{DEFINITIONS}/{plural}.{group}"
    path = f"/apis/{group}/v1beta1" + WHERE[plural].removeprefix(GROUP)
    old = crd_cases.named(plural, "old", spec=spec) | {"apiVersion": f"{group}/v1beta1"}
    try:
        api.apply(place, lax)
        patience.wait_until(lambda: api.ask("POST", path, old).status == 201)
        api.apply(place, strict)
        # Judged before it is found to exist (409), so 422 shows that the rules are in force.
        patience.wait_until(lambda: try_out(api, path, old).status == 422)
        api.patch(f"{path}/old", {"metadata": {"labels": {"seen": "true"}}})
        if plural == "queues":
            api.patch(f"{path}/old/status", {"status": {"state": "Open"}})
        else:
            api.patch(f"{path}/old", {"status": {"phase": "Pending"}})
    finally:
        api.delete(place)


def drop_rules(node: Any) -> None:
    """Remove every CEL rule at and below a node of a CRD."""
    if isinstance(node, dict):
        node.pop("x-kubernetes-validations", None)
        node = list(node.values())
    for child in node if isinstance(node, list) else []:
        drop_rules(child)

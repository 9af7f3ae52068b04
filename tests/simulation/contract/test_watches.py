"""Watches: what they show, in which order, and how they end."""

from tests.simulation.contract.sides import Case, Event
from vscheduler.mirror import paths

INITIAL_END = "k8s.io/initial-events-end"


def shown(events: list[Event]) -> list[tuple[str, str]]:
    """Types and names."""
    return [(kind, body["metadata"].get("name", "")) for kind, body in events]


def version(case: Case) -> str:
    """The version of a list."""
    found: str = case.api.get(case.pods)["metadata"]["resourceVersion"]
    return found


def label(case: Case, name: str, value: str | None) -> None:
    """Set the label `app` of a pod."""
    case.api.patch(case.at(name), {"metadata": {"labels": {"app": value}}})


def test_a_watch_shows_what_happened_since_a_version(case: Case) -> None:
    """ADDED, MODIFIED, DELETED, in order."""
    since = version(case)
    case.create_pod("a")
    label(case, "a", "x")
    case.api.delete(case.at("a"))
    case.create_pod("b")
    events = case.side.watch(case.pods, most=5, resourceVersion=since)
    assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED", "ADDED"]
    assert [body["metadata"]["name"] for _, body in events] == ["a", "a", "a", "a", "b"]
    versions = [int(body["metadata"]["resourceVersion"]) for _, body in events]
    assert versions == sorted(set(versions))


def test_events_name_kind_and_version_of_the_api(case: Case) -> None:
    """Unlike the items of lists."""
    since = version(case)
    case.create_pod("a")
    ((_, body),) = case.side.watch(case.pods, most=1, resourceVersion=since)
    assert (body["kind"], body["apiVersion"]) == ("Pod", "v1")


def test_a_deletion_has_a_version_of_its_own(case: Case) -> None:
    """So that a watch can go on after it."""
    path, made = case.create_group("g")
    groups = paths.POD_GROUPS.within(case.namespace)
    case.api.delete(path)
    before = made["metadata"]["resourceVersion"]
    ((kind, body),) = case.side.watch(groups, most=1, resourceVersion=before)
    now = body["metadata"]["resourceVersion"]
    assert kind == "DELETED"
    assert int(now) > int(before)
    assert "deletionTimestamp" not in body["metadata"]
    assert case.side.watch(groups, most=1, resourceVersion=now, timeoutSeconds=1) == []


def test_a_pod_is_marked_before_it_is_gone(case: Case) -> None:
    """Even if no kubelet has to be waited for."""
    made = case.create_pod("a")["metadata"]
    case.api.delete(case.at("a"))
    events = case.side.watch(case.pods, most=2, resourceVersion=made["resourceVersion"])
    assert shown(events) == [("MODIFIED", "a"), ("DELETED", "a")]
    for _, body in events:
        assert body["metadata"]["deletionGracePeriodSeconds"] == 0
        assert body["metadata"]["generation"] == 2


def test_a_watch_without_a_version_starts_with_all_objects(case: Case) -> None:
    """As ADDED."""
    case.create_pod("a")
    case.create_pod("b")
    events = case.side.watch(case.pods, most=2)
    assert sorted(shown(events)) == [("ADDED", "a"), ("ADDED", "b")]


def test_version_0_starts_with_all_objects_too(case: Case) -> None:
    """Of any state that the server has."""
    case.create_pod("a")
    assert shown(case.side.watch(case.pods, most=1, resourceVersion="0")) == [("ADDED", "a")]


def test_other_namespaces_are_not_shown(case: Case) -> None:
    """Nor other kinds."""
    since = version(case)
    case.create_group("g")
    other = f"{case.namespace}-other"
    case.api.create(paths.NAMESPACES.everywhere, {"metadata": {"name": other}})
    case.api.create(
        paths.CORE_EVENTS.within(other).replace("/events", "/configmaps"),
        {"metadata": {"name": "c"}},
    )
    case.create_pod("a")
    assert shown(case.side.watch(case.pods, most=1, resourceVersion=since)) == [("ADDED", "a")]


def test_an_object_enters_and_leaves_a_selector(case: Case) -> None:
    """ADDED when it is selected, DELETED when it no longer is."""
    case.create_pod("a")
    since = version(case)
    label(case, "a", "x")
    label(case, "a", "y")
    label(case, "a", "x")
    events = case.side.watch(case.pods, most=3, resourceVersion=since, labelSelector="app=x")
    assert shown(events) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]


def test_what_leaves_a_selector_is_shown_as_it_was_selected(case: Case) -> None:
    """With the version of the change."""
    case.create_pod("a")
    label(case, "a", "x")
    since = version(case)
    label(case, "a", "y")
    now = case.api.get(case.at("a"))["metadata"]["resourceVersion"]
    ((kind, body),) = case.side.watch(
        case.pods, most=1, resourceVersion=since, labelSelector="app=x"
    )
    assert (kind, body["metadata"]["resourceVersion"]) == ("DELETED", now)
    assert body["metadata"]["labels"] == {"app": "x"}


def test_what_is_never_selected_is_not_shown(case: Case) -> None:
    """Not even its deletion."""
    since = version(case)
    case.create_pod("a")
    case.api.delete(case.at("a"))
    events = case.side.watch(
        case.pods, most=1, resourceVersion=since, labelSelector="app", timeoutSeconds=1
    )
    assert events == []


def test_a_pod_leaves_a_field_selector(case: Case) -> None:
    """Once it is bound, a watch of unbound pods sees it deleted."""
    case.create_pod("a")
    since = version(case)
    assert case.bind("a").status == 201
    events = case.side.watch(
        case.pods, most=1, resourceVersion=since, fieldSelector="spec.nodeName="
    )
    assert shown(events) == [("DELETED", "a")]


def test_the_server_ends_a_watch(case: Case) -> None:
    """After timeoutSeconds."""
    assert case.side.watch(case.pods, most=1, resourceVersion=version(case), timeoutSeconds=1) == []


def test_a_bookmark_comes_before_the_end(case: Case) -> None:
    """With kind and version, and nothing else of an object."""
    events = case.side.watch(
        case.pods,
        most=2,
        during=lambda: case.create_pod("a"),
        resourceVersion=version(case),
        allowWatchBookmarks="true",
        timeoutSeconds=4,
    )
    assert [kind for kind, _ in events] == ["ADDED", "BOOKMARK"]
    made, body = events[0][1], events[1][1]
    assert body["kind"] == "Pod"
    assert body["metadata"].keys() == {"resourceVersion"}
    now = int(body["metadata"]["resourceVersion"])
    assert int(made["metadata"]["resourceVersion"]) <= now <= int(version(case))


def test_initial_events_end_with_a_bookmark(case: Case) -> None:
    """Which says so in an annotation."""
    case.create_pod("a")
    events = case.side.watch(
        case.pods,
        most=2,
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )
    assert shown(events) == [("ADDED", "a"), ("BOOKMARK", "")]
    assert events[1][1]["metadata"]["annotations"][INITIAL_END] == "true"


def test_a_version_that_is_too_old_is_an_error(case: Case) -> None:
    """410 in the only event of the watch; here, from before the kind was known."""
    case.create_group("g")
    groups = paths.POD_GROUPS.within(case.namespace)
    ((kind, body),) = case.side.watch(groups, most=2, resourceVersion="1")
    assert (kind, body["code"], body["reason"]) == ("ERROR", 410, "Expired")
    assert body["kind"] == "Status"


def test_metadata_only(case: Case) -> None:
    """As the Accept header asks."""
    since = version(case)
    case.create_pod("a")
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    ((_, body),) = case.side.watch(
        case.pods, most=1, resourceVersion=since, headers={"accept": accept}
    )
    assert body["kind"] == "PartialObjectMetadata"
    assert "spec" not in body


def test_a_single_object_can_be_watched(case: Case) -> None:
    """By its name."""
    since = version(case)
    case.create_pod("a")
    case.create_pod("b")
    events = case.side.watch(
        case.pods, most=1, resourceVersion=since, fieldSelector="metadata.name=b"
    )
    assert shown(events) == [("ADDED", "b")]


def test_custom_kinds_are_watched_alike(case: Case) -> None:
    """PodGroups."""
    collection = paths.POD_GROUPS.within(case.namespace)
    since = case.api.get(collection)["metadata"]["resourceVersion"]
    path, _ = case.create_group("g")
    case.api.patch(path, {"status": {"phase": "Inqueue"}})
    case.api.delete(path)
    events = case.side.watch(collection, most=3, resourceVersion=since)
    assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "DELETED"]

"""Whatever an object is called, its path leads to that object or there is none."""

from collections.abc import Callable
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vscheduler.mirror import paths
from vscheduler.mirror.paths import Path, UnusableNameError


def segments(path: str) -> list[str]:
    """What a server sees that divides a path and then decodes it."""
    parts = urlsplit(f"https://server:6443{path}")
    assert (parts.query, parts.fragment) == ("", "")
    return [unquote(each, errors="strict") for each in parts.path.split("/")]


@given(st.text())
@example("?limit=1&x=%")
@example("a#b")
@example("..")
@example("a\r\nHost: other")
def test_a_name_is_one_segment_or_none(name: str) -> None:
    """The server sees just that segment, whether it divides before it decodes or after."""
    try:
        path = paths.PODS.at(name, "ns")
    except UnusableNameError:
        assert not name or name in (".", "..") or set(name) & set("/%") or len(name) > 253
        return
    assert segments(path) == ["", "api", "v1", "namespaces", "ns", "pods", name]
    assert unquote(path).split("/")[5:] == ["pods", name]
    assert path.isascii()
    assert path.isprintable()
    assert " " not in path


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "..%2f", "%", "x" * 254, "\ud800"])
def test_what_nothing_can_be_called_has_no_path(name: str) -> None:
    """As a name, as a namespace and as a subresource; the error shows no more than a line of it."""
    calls: list[Callable[[], Path]] = [
        lambda: paths.PODS.at(name, "ns"),
        lambda: paths.PODS.at("a", name),
        lambda: paths.PODS.within(name),
        lambda: paths.QUEUES.status(name),
        lambda: paths.PODS.part("a", "ns", name),
    ]
    for call in calls:
        with pytest.raises(UnusableNameError) as raised:
            call()
        assert len(str(raised.value)) < 300
        assert str(raised.value).isprintable()


def test_custom_resources_are_told_from_kinds_of_kubernetes() -> None:
    """By their group."""
    assert paths.POD_GROUPS.everywhere.is_custom
    assert paths.QUEUES.everywhere.with_query({"limit": "1"}).is_custom
    built_in = (paths.PODS, paths.STORAGE_CLASSES, paths.BUDGETS, paths.REPLICA_SETS)
    assert not any(each.everywhere.is_custom for each in built_in)


def test_paths_are_those_of_kubernetes() -> None:
    """Of the core group and others, with namespaces and without, with and without a query."""
    assert [
        paths.PODS.everywhere,
        paths.PODS.within("ns"),
        paths.PODS.at("a", "ns"),
        paths.PODS.part("a", "ns", "binding"),
        paths.QUEUES.everywhere,
        paths.QUEUES.at("q"),
        paths.QUEUES.status("q"),
        paths.POD_GROUPS.at("g", "ns"),
        paths.version("v1"),
        paths.version("apps/v1"),
    ] == [
        "/api/v1/pods",
        "/api/v1/namespaces/ns/pods",
        "/api/v1/namespaces/ns/pods/a",
        "/api/v1/namespaces/ns/pods/a/binding",
        "/apis/scheduling.volcano.sh/v1beta1/queues",
        "/apis/scheduling.volcano.sh/v1beta1/queues/q",
        "/apis/scheduling.volcano.sh/v1beta1/queues/q/status",
        "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/g",
        "/api/v1",
        "/apis/apps/v1",
    ]


@given(
    st.dictionaries(
        st.text(min_size=1, alphabet=st.characters(codec="utf-8")),
        st.text(min_size=1, alphabet=st.characters(codec="utf-8")),
    )
)
def test_a_query_is_what_was_asked(params: dict[str, str]) -> None:
    """However odd its values are; and it keeps what is at the path."""
    path = paths.PODS.at("a", "ns").with_query(params)
    parts = urlsplit(str(path))
    assert parts.path == "/api/v1/namespaces/ns/pods/a"
    assert {name: each[0] for name, each in parse_qs(parts.query).items()} == params
    assert (path.kind, path.api_version, path.name) == ("Pod", "v1", "a")


def test_a_path_says_what_its_answer_is() -> None:
    """A collection has no name, and a subresource is an object of another kind."""
    told = [
        (each.kind, each.name)
        for each in (
            paths.PODS.everywhere,
            paths.PODS.within("ns"),
            paths.PODS.status("a", "ns"),
            paths.PODS.part("a", "ns", "eviction"),
        )
    ]
    assert told == [("Pod", ""), ("Pod", ""), ("Pod", "a"), ("", "")]


def test_valid_names_are_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pod has some fifteen segments in its requests, and quoting one takes four calls."""
    monkeypatch.setattr(paths, "quote", None)
    paths.version.cache_clear()
    path = paths.POD_GROUPS.status("a-1.b_C", "ns")
    assert path == "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/a-1.b_C/status"

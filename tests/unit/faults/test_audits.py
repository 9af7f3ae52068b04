import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.faults import audits
from tests.faults.audits import Entry, Log, Reign

USERS = ("one", "two")


def at(seconds: float) -> str:
    """A moment as the log has it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def event(user: str, verb: str, resource: str, name: str, when: float, **more: Any) -> str:
    """A line of an audit log."""
    plural, _, part = resource.partition("/")
    target = {"resource": plural, "namespace": "ns", "name": name, "uid": more.get("uid", "")}
    return json.dumps(
        {
            "kind": "Event",
            "stage": more.get("stage", "ResponseComplete"),
            "verb": verb,
            "user": {"username": user},
            "objectRef": {**target, **({"subresource": part} if part else {})},
            "responseStatus": {"code": more.get("code", 201)},
            "requestReceivedTimestamp": at(when),
            "stageTimestamp": at(when + 0.25),
        }
    )


def bind(user: str, pod: str, when: float, **more: Any) -> str:
    """A pod is bound."""
    return event(user, "create", "pods/binding", pod, when, **more)


def renewal(user: str, when: float, **more: Any) -> str:
    """Lease L is written to."""
    return event(user, "update", "leases", "L", when, **{"code": 200, **more})


def entries(*lines: str) -> list[Entry]:
    """What a log of these lines says."""
    return [entry for line in lines for entry in audits.parse(json.loads(line))]


def out_of_turn(*lines: str) -> list[tuple[str, str]]:
    """User and pod of what came in while another held the Lease."""
    return [
        (each.user, each.name) for each in audits.out_of_turn(entries(*lines), "ns", "L", USERS)
    ]


def test_a_pod_that_is_bound_twice_is_counted() -> None:
    """By whomever; not where the second attempt was refused, and not one made anew."""
    seen = entries(
        *(bind("one", "a", 1, uid="u1"), bind("two", "a", 2, uid="u1")),
        *(bind("one", "b", 1, uid="u2"), bind("one", "b", 3, uid="u2")),
        *(bind("one", "c", 1, uid="u3"), bind("two", "c", 2, uid="u3", code=409)),
        *(bind("one", "d", 1, uid="u4"), bind("one", "d", 2, uid="u5")),
        *(bind("one", "e", 1), event("one", "create", "pods/eviction", "e", 2)),
    )
    assert audits.bound_twice(seen) == ["ns/a", "ns/b"]
    assert (len(audits.attempts(seen)), len(audits.binds(seen))) == (9, 8)


def test_a_bind_after_anothers_takeover_is_out_of_turn() -> None:
    """Refused ones too; who takes the Lease back is in turn again."""
    assert out_of_turn(
        renewal("one", 1),
        bind("one", "early", 2),
        renewal("two", 3),
        bind("one", "crossing", 3.2),
        bind("one", "late", 4),
        bind("one", "refused", 4, code=409),
        bind("two", "right", 4),
        renewal("one", 5),
        bind("one", "again", 6),
        bind("two", "late too", 6),
    ) == [("one", "late"), ("one", "refused"), ("two", "late too")]


def test_a_bind_before_any_lease_is_out_of_turn() -> None:
    """Nobody held it; the pods of other users, who stand for nothing, don't count."""
    assert out_of_turn(bind("two", "a", 1), bind("admin", "b", 1)) == [("two", "a")]


def test_writes_that_were_refused_or_made_by_others_win_nothing() -> None:
    """Somebody's patch is no takeover, nor is a conflict."""
    seen = entries(
        renewal("one", 1),
        renewal("two", 2, code=409),
        renewal("admin", 3),
        renewal("one", 4),
        event("two", "get", "leases", "L", 5, code=200),
        event("two", "update", "leases", "other", 6, code=200),
    )
    assert audits.reigns(seen, "L", USERS) == [Reign(user="one", began=1.25, renewed=4)]


def test_the_first_after_a_moment() -> None:
    """By when it was answered, of one user."""
    seen = entries(
        bind("two", "c", 4), bind("two", "b", 2), bind("two", "a", 1), bind("one", "o", 2)
    )
    found = audits.first(seen, "two", 1.5)
    assert found is not None
    assert found.name == "b"
    assert audits.first(seen, "two", 9) is None


@pytest.mark.parametrize(
    ("verb", "stage", "counted"),
    [
        ("create", "ResponseComplete", 1),
        ("create", "ResponseStarted", 0),
        ("watch", "ResponseStarted", 1),
        ("watch", "ResponseComplete", 0),
    ],
)
def test_a_request_is_one_entry(verb: str, stage: str, counted: int) -> None:
    """When it is answered; a watch when it begins."""
    assert len(entries(event("one", verb, "pods", "a", 1, stage=stage))) == counted


def test_a_log_is_read_from_where_it_was_and_by_whole_lines(tmp_path: Path) -> None:
    """What stood in it before belongs to another test; half a line is read later."""
    path = tmp_path / "audit.log"
    path.write_text(bind("one", "old", 1) + "\n")
    log = Log(path)
    line = bind("one", "new", 2) + "\n"
    with path.open("a") as stream:
        stream.write(bind("one", "first", 2) + "\n" + line[:40])
    assert [entry.name for entry in log.entries()] == ["first"]
    with path.open("a") as stream:
        stream.write(line[40:] + event("one", "list", "nodes", "", 3) + "\n")
    assert [entry.name for entry in log.entries()] == ["first", "new"]

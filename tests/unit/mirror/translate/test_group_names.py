import re

import pytest
from hypothesis import given, strategies

from vscheduler.mirror.translate import pod_owners

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
TEXTS = strategies.text(max_size=300)


def test_a_group_is_named_after_its_controller() -> None:
    """And after its UID, for a Job that is made anew gets another group."""
    first, second = (pod_owners.automatic_name("train", uid, "vscheduler") for uid in ("u1", "u2"))
    assert first == "train-bb82030d91"
    assert second.startswith("train-")
    assert first != second


def test_under_volcanos_name_groups_have_volcanos_names() -> None:
    """So that its controllers and ours make one group, not two."""
    assert pod_owners.automatic_name("train", "u1", "volcano") == "podgroup-u1"


@given(name=TEXTS, uid=TEXTS)
def test_names_are_valid_whatever_the_controller_is_called(name: str, uid: str) -> None:
    """Owner references are not validated: anything may be in them."""
    group = pod_owners.short_name(name, uid)
    assert LABEL.fullmatch(group)
    assert pod_owners.is_automatic(group)
    assert pod_owners.belongs(group, uid)
    assert not pod_owners.belongs(group, f"{uid}x")


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("Web.Front_End", "web-front-end"),
        ("x" * 253, "x" * 52),
        (f"{'x' * 51}-y", "x" * 51),
        ("---", "pods"),
        ("../../nodes?x=", "nodes-x"),
        ("podgroup", "podgroup"),
    ],
)
def test_what_a_name_may_not_have_is_left_out(name: str, start: str) -> None:
    """It is a DNS label of at most 63 characters, and thus the value of a label, too."""
    assert pod_owners.short_name(name, "u")[:-11] == start


@pytest.mark.parametrize(
    "name", ["train", "build-1732550000", "build-3f9a1c2b7d", "web-7d9f8c6b5x", "bb82030d91", ""]
)
def test_names_of_users_are_not_taken_for_ours(name: str) -> None:
    """Those that end with a time, a hash of git or a hash of a ReplicaSet."""
    assert not pod_owners.is_automatic(name)
    assert not pod_owners.belongs(name, "u1")


def test_names_of_earlier_releases_are_known() -> None:
    """They were Volcano's for every scheduler."""
    assert pod_owners.is_automatic("podgroup-u1")
    assert pod_owners.belongs("podgroup-u1", "u1")
    assert not pod_owners.belongs("podgroup-u1", "u2")

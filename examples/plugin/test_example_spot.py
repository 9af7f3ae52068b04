"""Tests of the plugin: a cluster drawn as text, and the nodes that its pods get."""

from example_spot import Spot

from vscheduler.testing import decide

CLUSTER = """
    node  steady cpu=4
    node  cheap  cpu=4 label=example.com/spot=true
    queue batch
    queue web
"""
TIERS = "gang | spot:spot.queues=batch predicates"


def places(*jobs, tiers=TIERS):
    """Return the node of each bound pod."""
    return decide("\n".join([CLUSTER, *jobs]), plugins=[Spot], tiers=tiers).binds


def test_welcome_queues_go_to_spot_nodes_first():
    assert places("job batch/train min=1 cpu=1 -") == {"train-0": "cheap"}


def test_others_stay_off_them():
    assert places("job web/site min=1 cpu=1 -") == {"site-0": "steady"}
    assert places("job batch/train min=1 cpu=3 -", "job web/site min=1 cpu=3 -") == {
        "train-0": "cheap",
        "site-0": "steady",
    }


def test_the_label_is_an_argument():
    other = TIERS.replace("spot.queues=batch", "spot.label=example.com/other")
    assert places("job web/site min=1 cpu=5 -", tiers=other) == {}
    both = places("job web/site min=1 cpu=4 -", "job batch/train min=1 cpu=4 -", tiers=other)
    assert both.keys() == {"train-0", "site-0"}

import random
from collections import Counter

import pytest

from tests import running
from tests.properties import hierarchical_drf_by_hand
from vscheduler.testing import pictures

SEEDS = range(60)
TREE = {"actions": "allocate", "tiers": running.tiers("drf:enableHierarchy=true | predicates")}


@pytest.mark.parametrize("volcano", [False, True])
def test_branches_are_served_in_the_order_of_their_shares(volcano: bool) -> None:
    """No branch is served while one beside it with a smaller share by weight has a pod that fits:
    each job has what the rule gives when it is worked out anew before each pod.
    """
    way = {"compatibility": "volcano"} if volcano else {}
    for seed in SEEDS:
        case = hierarchical_drf_by_hand.drawn(random.Random(seed))
        case.volcano = volcano
        documents = pictures.documents(hierarchical_drf_by_hand.picture(case))
        for document in documents:
            if document["kind"] == "Queue":
                name = document["metadata"]["name"]
                document["metadata"]["annotations"] = hierarchical_drf_by_hand.annotations(
                    case, name
                )
        result = running.run(documents, {**TREE, **way})
        bound = Counter(bind.task.job.rpartition("/")[2] for bind in result.binds)
        assert bound == +case.fill(), seed

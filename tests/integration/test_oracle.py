from collections.abc import Mapping, Sequence
from pathlib import Path

from sandbox.control_plane import ControlPlane
from tests.oracle import comparing, worlds
from tests.oracle.comparing import Comparison

SAMPLE: Mapping[str, Sequence[int]] = {
    "resources": (0,),
    "host-ports": (0,),
    "unwell-nodes": (1,),
    "topology-spread": (0, 1),
    "neighbours": (0, 1),
    "leaving-company": (1,),
    "nominations": (0,),
    "nominations-of-neighbours": (0, 1),
    "everything": (0, 1, 2),
    "gangs-ports": (0,),
    "gangs-apart-by-host": (0, 1),
    "gangs-roles": (0,),
    "gangs-everything": (0, 1),
}
"""Worlds of some features, by seed, with all differences that are meant; `make test-oracle` judges
more of each, and every feature.
"""


def test_filters_say_what_those_of_kube_scheduler_say(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """Node by node and gang by gang, but for differences that are meant and still there."""
    with worlds.stage(cluster) as stage:
        comparison = Comparison(stage=stage, folder=tmp_path)
        for feature, seeds in SAMPLE.items():
            for seed in seeds:
                comparison.judge(feature, seed)
    found = comparison.found
    assert comparing.unknown(found) == [], f"the manifests are in {tmp_path}"
    assert comparing.gone(found) == []
    assert {each.feature for each in found} == set(SAMPLE)
    assert len(found) > 900
    assert 0.2 < sum(each.kube for each in found) / len(found) < 0.8

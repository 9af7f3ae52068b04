import asyncio
import time

import numpy as np
import pytest
from msgspec.structs import replace

from tests.web import clusters
from tests.web.stage import Stage, domains, everything, places
from vscheduler.model.decisions import Bind, Pipeline
from vscheduler.model.snapshot import Refused
from vscheduler.web import capacity, documents
from vscheduler.web.capacity import Capacity
from vscheduler.web.cluster_view import ViewMaker

NOW = time.time()


def made() -> Stage:
    """Three nodes of 4 GPUs; one has a job of 3 pods, and one of 2 pods waits."""
    found = [clusters.node(f"n{at}", cpu="16", nvidia_gpu="4") for at in range(3)]
    found += [clusters.queue("lab")]
    found += clusters.job("lab", "train", 3, on=("n0",) * 3, nvidia_gpu="1")
    found += clusters.job("lab", "large", 2, nvidia_gpu="8")
    return Stage(found, NOW)


def gpus(found: Capacity, part: str) -> list[int]:
    """The amounts of a part, by node."""
    column: list[int] = getattr(found, part)[:, found.space.columns["nvidia.com/gpu"]].tolist()
    return column


def test_parts_add_up_to_the_total() -> None:
    """Used by this scheduler's pods, bound just now, promised, not usable, and free."""
    stage = made()
    waiting = next(job for job in stage.taken.jobs if job.id.startswith("lab/large")).tasks
    small = next(job for job in stage.taken.jobs if job.id.startswith("lab/train")).tasks[0]
    more = [replace(small, uid=f"{small.uid}-{at}") for at in range(2)]
    result = replace(
        stage.result,
        binds=(Bind(task=more[0], node="n1"),),
        pipelined=(
            Pipeline(task=more[1], node="n1"),
            Pipeline(task=more[1], node="n1"),
            Pipeline(task=waiting[0], node="gone"),
        ),
    )
    refused = {"n2": Refused(reason="OutOfcpu", seconds=60, until=NOW + 60)}
    found = capacity.of(replace(stage.taken, refused=refused), result)
    assert gpus(found, "ours") == [3, 1, 0]
    assert gpus(found, "reserved") == [0, 1, 0]
    assert gpus(found, "closed") == [0, 0, 4]
    assert gpus(found, "free") == [1, 2, 0]
    assert found.problems == ("", "", "its kubelet refused a pod: OutOfcpu")
    parts = [getattr(found, part) for part in documents.PARTS if part != "total"]
    assert np.array_equal(sum(parts), found.total)


def test_what_is_reserved_is_of_the_queues_of_its_pods() -> None:
    """With those above them; all together it is what nodes say."""
    found = [clusters.node(f"n{at}", cpu="16", nvidia_gpu="4") for at in range(2)]
    found += [clusters.queue("org"), *(clusters.queue(each, parent="org") for each in ("a", "b"))]
    found += clusters.job("a", "first", 2, nvidia_gpu="3")
    found += clusters.job("b", "second", 2, nvidia_gpu="3")
    stage = Stage(found, NOW)
    tasks = {job.queue: job.tasks for job in stage.taken.jobs}
    kept = [(tasks["a"][0], "n0"), (tasks["b"][0], "n0"), (tasks["b"][1], "n1")]
    pipelined = tuple(Pipeline(task=task, node=node) for task, node in kept)
    result = replace(stage.result, binds=(), pipelined=pipelined)
    amounts = {
        name: each["nvidia.com/gpu"]
        for name, each in capacity.of(stage.taken, result).reserved_for.items()
    }
    assert amounts == {"a": 3, "b": 4}, "n0 has 4, of which the first pod gets 3"
    assert sum(gpus(capacity.of(stage.taken, result), "reserved")) == 7
    stage.past.cycle(stage.taken, result)
    view = ViewMaker(places, domains).make(asyncio.run(stage.look()))
    shown = {
        each["name"]: each["resources"]["nvidia.com/gpu"].get("reserved", {}).get("text")
        for each in documents.queues(view, everything(), 0, 9)["queues"]
    }
    assert shown == {"org": "7", "a": "3", "b": "4"}


def test_it_stays_the_same_object_while_nothing_changes() -> None:
    """So that the page asks for nodes only when there is news."""
    stage = made()
    first = capacity.of(stage.taken, stage.result)
    assert capacity.of(stage.taken, stage.result, (), first) is first
    other = capacity.of(stage.taken, stage.result, ("a", "b", "c"), first)
    assert other is not first
    assert other.domains == ("a", "b", "c")


@pytest.mark.parametrize(
    ("totals", "wanted", "first"),
    [
        ({"cpu": 1, "memory": 1, "pods": 9}, {}, ["cpu", "memory"]),
        ({"cpu": 1, "nvidia.com/gpu": 0}, {}, ["cpu"]),
        ({"cpu": 1, "nvidia.com/gpu": 8, "rdma/hca": 8}, {}, ["nvidia.com/gpu", "cpu", "rdma/hca"]),
        ({"cpu": 1, "nvidia.com/gpu": 8}, {"cpu": 1}, ["cpu", "nvidia.com/gpu"]),
        (
            {"cpu": 1, "nvidia.com/gpu": 8, "google.com/tpu": 8},
            {"google.com/tpu": 9, "nvidia.com/gpu": 4},
            ["google.com/tpu", "nvidia.com/gpu", "cpu"],
        ),
    ],
)
def test_the_scarcest_accelerator_comes_first(
    totals: dict[str, float], wanted: dict[str, float], first: list[str]
) -> None:
    """Then cpu and memory, then what else nodes have; nothing that no node has."""
    assert capacity.by_concern(totals, wanted) == first

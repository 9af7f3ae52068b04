"""Tests of the plugin: run a cycle on manifests and check the nodes of the pods."""

import example_spot
import yaml

from vscheduler.core import actions, compat, plugins
from vscheduler.core.config import policy
from vscheduler.simulator import run
from vscheduler.simulator.run import Options

CONFIGURATION = """
actions: allocate
tiers:
- plugins:
  - name: gang
  - name: spot
    arguments:
      spot.queues: batch
  - name: predicates
"""

CLUSTER = """
{apiVersion: v1, kind: Node, metadata: {name: steady},
 status: {allocatable: {cpu: "4", pods: "10"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: cheap, labels: {example.com/spot: "true"}},
 status: {allocatable: {cpu: "4", pods: "10"}}}
"""

JOB = """
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: QUEUE}}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup,
 metadata: {name: QUEUE, namespace: default}, spec: {queue: QUEUE, minMember: 1}}
---
{apiVersion: v1, kind: Pod,
 metadata: {name: QUEUE-0, namespace: default,
            annotations: {scheduling.k8s.io/group-name: QUEUE}},
 spec: {schedulerName: vscheduler,
        containers: [{name: main, image: none, resources: {requests: {cpu: CPU}}}]}}
"""


def places(*jobs, configuration=CONFIGURATION):
    """Return the node of each bound pod; a job is given as a queue and a cpu request."""
    parsed = policy.parse(
        yaml.safe_load(configuration),
        (*plugins.PLUGINS, example_spot.Spot),
        actions.ACTIONS,
        compat.VOLCANO,
    )
    assert not parsed.problems
    texts = [CLUSTER, *(JOB.replace("QUEUE", queue).replace("CPU", cpu) for queue, cpu in jobs)]
    manifests = [document for text in texts for document in yaml.safe_load_all(text)]
    outcome = run.simulate(manifests, parsed.policy, Options())
    assert not outcome.problems
    assert not outcome.last.faults
    return {bind.task.name: bind.node for bind in outcome.binds}


def test_welcome_queues_go_to_spot_nodes_first():
    assert places(("batch", "1")) == {"batch-0": "cheap"}


def test_others_stay_off_them():
    assert places(("web", "1")) == {"web-0": "steady"}
    assert places(("batch", "3"), ("web", "3")) == {"batch-0": "cheap", "web-0": "steady"}


def test_the_label_is_an_argument():
    other = CONFIGURATION.replace("spot.queues: batch", "spot.label: example.com/other")
    assert places(("web", "5"), configuration=other) == {}
    assert places(("web", "4"), ("batch", "4"), configuration=other).keys() == {"web-0", "batch-0"}

"""Predicates: which nodes a pod may use, amounts aside.

Volcano: plugins/predicates, which asks kube-scheduler's filters. Room and pod slots are amounts:
the framework looks at them, and at whether a node is ready.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from vscheduler.core.framework import contracts
from vscheduler.core.model import jobs, masks
from vscheduler.core.model import nodes as tables

CORDONED = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint {{{key}: {value}}}"
UNSELECTED = "node(s) didn't match Pod's node affinity/selector"
PORTS_TAKEN = "node(s) didn't have free ports for the requested pod ports"
OTHER_TAINTS = "node(s) had other untolerated taints"

TAINTS_MAX = 16
"""So many taints are told apart; where every node has one of its own, the rest is one refusal."""


class Predicates(contracts.Plugin):
    """Cordons, taints, node selectors and affinity, host ports."""

    name = "predicates"
    arguments: ClassVar[Mapping[str, contracts.Argument]] = {
        "predicate.NodeAffinityEnable": contracts.Argument(bool, default=True),
        "predicate.NodePortsEnable": contracts.Argument(bool, default=True),
        "predicate.TaintTolerationEnable": contracts.Argument(bool, default=True),
        "predicate.CacheEnable": contracts.Argument(bool, default=False),
        "predicate.PodAffinityEnable": contracts.Argument(
            bool, default=False, missing="pod affinity"
        ),
        "predicate.NodeVolumeLimitsEnable": contracts.Argument(
            bool, default=False, missing="volume limits of nodes"
        ),
        "predicate.VolumeZoneEnable": contracts.Argument(
            bool, default=False, missing="zones of volumes"
        ),
        "predicate.PodTopologySpreadEnable": contracts.Argument(
            bool, default=False, missing="topology spread"
        ),
        "predicate.VolumeBindingEnable": contracts.Argument(
            bool, default=False, missing="volume binding"
        ),
        "predicate.DynamicResourceAllocationEnable": contracts.Argument(
            bool, default=False, missing="dynamic resource allocation"
        ),
        "volumebinding.bindTimeoutSeconds": contracts.Argument(
            int, None, minimum=0, missing="volume binding"
        ),
        "volumebinding.weight": contracts.Argument(int, None, minimum=0, missing="volume binding"),
        "volumebinding.shape": contracts.Argument(list, None, missing="volume binding"),
        "dynamicresources.filterTimeoutSeconds": contracts.Argument(
            int, None, minimum=0, missing="dynamic resource allocation"
        ),
    }

    def open(self, session: contracts.Session) -> None:
        """What follows from the nodes' specs is worked out once per task class."""
        del session
        self._affinity = bool(self.argument("predicate.NodeAffinityEnable"))
        self._taints = bool(self.argument("predicate.TaintTolerationEnable"))
        self._ports = bool(self.argument("predicate.NodePortsEnable"))
        self._fixed: dict[jobs.TaskClass, list[contracts.Verdict]] = {}

    def filter_nodes(
        self, task: jobs.Task, nodes: contracts.NodeView
    ) -> Sequence[contracts.Verdict]:
        """Only filters that refuse some node of the cluster answer."""
        fixed = self._fixed.get(task.kind)
        if fixed is None:
            fixed = self._fixed[task.kind] = self._work_out(task.kind, nodes.layout)
        if nodes.rows is None:
            verdicts = list(fixed)
        else:
            verdicts = [contracts.Verdict(each.refusal, each.passes[nodes.rows]) for each in fixed]
        wanted = task.kind.constraints.ports
        if self._ports and wanted and (nodes.ports or nodes.leaving_ports):
            later = masks.free_ports(nodes.layout, nodes.rows, wanted, nodes.ports)
            left = masks.free_ports(nodes.layout, nodes.rows, wanted, nodes.leaving_ports)
            verdicts.append(contracts.Verdict(PORTS_TAKEN, later & left, later, curable=True))
        return verdicts

    def _work_out(self, kind: jobs.TaskClass, layout: tables.NodeLayout) -> list[contracts.Verdict]:
        """The verdicts that no placement changes, in kube-scheduler's order."""
        limits = kind.constraints
        verdicts = [
            contracts.Verdict(CORDONED, masks.uncordoned(layout, limits.tolerations)),
        ]
        if self._taints:
            verdicts += _taint_verdicts(kind, layout)
        if self._affinity:
            verdicts.append(contracts.Verdict(UNSELECTED, masks.selected(layout, limits)))
        return [verdict for verdict in verdicts if not verdict.passes.all()]


def _taint_verdicts(kind: jobs.TaskClass, layout: tables.NodeLayout) -> list[contracts.Verdict]:
    """One verdict per taint, by key and value; equal texts of different effects are one."""
    by_text: dict[str, tables.Mask] = {}
    for taint, passes in masks.barriers(layout, kind.constraints.tolerations).items():
        text = TAINTED.format(key=taint.key, value=taint.value)
        if text not in by_text and len(by_text) >= TAINTS_MAX:
            text = OTHER_TAINTS
        by_text[text] = np.logical_and(by_text[text], passes) if text in by_text else passes
    return [contracts.Verdict(text, passes) for text, passes in sorted(by_text.items())]

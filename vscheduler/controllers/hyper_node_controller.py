"""The HyperNode controller: how many nodes each HyperNode has, and what is wrong with it.

One evaluation answers for all HyperNodes, after many changes at once: whoever installs a network
creates thousands of them within a minute. Only what differs is written. Nodes are followed once
there is a HyperNode; of a node, only name and labels are kept.
"""

import asyncio
import itertools
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec
import structlog

from vscheduler.backoff import Backoff, Growth
from vscheduler.containment import Failures
from vscheduler.controllers import ports
from vscheduler.controllers.ports import Api, Object, RefusedError, Trouble
from vscheduler.core.topology import hyper_nodes
from vscheduler.mirror import paths
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import DecodeFailed, Kind
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.mirror.decode.wire import Metadata, Struct
from vscheduler.mirror.translate import translation
from vscheduler.model.nodes import NodeLayout, NodeSpec
from vscheduler.model.topology import HyperNode

log = structlog.get_logger(__name__)

READY = "Ready"
"""The condition's type."""

VALID, CONTRADICTION, UNREADABLE = "Valid", "Contradiction", "Unreadable"
"""Reasons of the condition; the first one is that of status True."""

MESSAGE_MAX = 1024
WRITES_MAX = 1000
"""After so many writes everything is looked at again: there may be newer answers by then."""

AT_ONCE = 16

ALL = ""
"""Backoff key of all writes: a right that is missing for one is missing for all."""

MANAGER = {"fieldManager": "vscheduler-controllers", "force": "true"}


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the status of a HyperNode says."""

    node_count: int
    reason: str = VALID
    message: str = ""


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """A HyperNode as stored."""

    name: str
    uid: str
    value: HyperNode | None
    """None if it can't be read."""
    problem: str = ""
    """Why it can't be read."""
    stored: Verdict | None = None
    """What its status says; None if that is incomplete."""
    since: str = ""
    """When its condition last changed between true and false."""


def described(body: Mapping[str, Any]) -> Described:
    """Return a HyperNode from its JSON."""
    metadata, status = body.get("metadata") or {}, body.get("status") or {}
    value, problem = None, ""
    event = events.convert(Kind.HYPER_NODE, {"metadata": metadata, "spec": body.get("spec")})
    if isinstance(event, DecodeFailed):
        problem = str(event.rejection).partition(": ")[2]
    else:
        try:
            value = translation.hyper_node(event.object)  # type: ignore[arg-type] # by its kind
        except FieldError as error:
            problem = f"{error.field}: {error.message}"
    conditions = status.get("conditions") or ()
    ready: Mapping[str, Any] = next((c for c in conditions if c.get("type") == READY), {})
    count, stored = status.get("nodeCount"), None
    if isinstance(count, int) and ready:
        reason, message = str(ready.get("reason", "")), str(ready.get("message", ""))
        stored = Verdict(node_count=count, reason=reason, message=message)
    return Described(
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        value=value,
        problem=problem,
        stored=stored,
        since=str(ready.get("lastTransitionTime") or ""),
    )


def verdicts(every: Sequence[HyperNode], layout: NodeLayout) -> Mapping[str, Verdict]:
    """Return what to say of each HyperNode, by name."""
    tree, problems = hyper_nodes.tree(every, layout)
    return {
        domain.name: _verdict(tree.size(place), problems.get(domain.name, ()))
        for place, domain in enumerate(tree.domains[:-1])
    }


def _verdict(node_count: int, problems: Iterable[str]) -> Verdict:
    message = "; ".join(problems)
    if not message:
        return Verdict(node_count=node_count)
    return Verdict(node_count=node_count, reason=CONTRADICTION, message=_short(message))


def _short(message: str) -> str:
    return message if len(message) <= MESSAGE_MAX else f"{message[: MESSAGE_MAX - 1]}…"


def applied(hyper_node: Described, verdict: Verdict) -> Object:
    """Return the object for a server-side apply of its status."""
    is_ready = verdict.reason == VALID
    before = hyper_node.stored
    stays = before is not None and (before.reason == VALID) == is_ready and hyper_node.since
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {
        "type": READY,
        "status": str(is_ready),
        "reason": verdict.reason,
        "message": verdict.message,
        "lastTransitionTime": hyper_node.since if stays else now,
    }
    return {
        "apiVersion": paths.HYPER_NODES.api_version,
        "kind": paths.HYPER_NODES.kind,
        "metadata": {"name": hyper_node.name, "uid": hyper_node.uid},
        "status": {"nodeCount": verdict.node_count, "conditions": [condition]},
    }


class Removed(msgspec.Struct, frozen=True):
    """A node is gone."""

    name: str


NodeEvent: TypeAlias = NodeSpec | Removed | Sequence[NodeSpec]
"""A node that came or changed, one that is gone, or a list of all."""


class _Node(Struct, frozen=True):
    metadata: Metadata = Metadata()


_decode_node = msgspec.json.Decoder(_Node).decode


class NodeCodec:
    """Decodes nodes, of which only name and labels are kept; handed to a reflector."""

    def read(self, items: Sequence[bytes | msgspec.Raw]) -> list[NodeSpec]:
        """Decode some nodes of a list."""
        return [self._read(item) for item in items]

    def begin(self, nodes: Sequence[NodeSpec]) -> list[NodeEvent]:
        """Return no events: part of a list isn't applied."""
        del nodes
        return []

    def replace(self, nodes: Sequence[NodeSpec]) -> list[NodeEvent]:
        """Return the event for a complete list."""
        return [tuple(nodes)]

    def change(self, change: str, item: bytes | msgspec.Raw) -> list[NodeEvent]:
        """Return the event for a node that was ADDED, MODIFIED or DELETED."""
        node = self._read(item)
        return [Removed(node.name) if change == "DELETED" else node]

    def _read(self, item: bytes | msgspec.Raw) -> NodeSpec:
        metadata = _decode_node(item).metadata
        labels = sorted((sys.intern(key), text) for key, text in metadata.labels.items())
        return NodeSpec(name=metadata.name, labels=tuple(labels))


class Nodes:
    """All nodes, with their labels."""

    def __init__(self) -> None:
        self._by_name: dict[str, NodeSpec] | None = None
        self._layout: NodeLayout | None = None

    def apply(self, event: NodeEvent) -> bool:
        """Apply an event; return whether a node came, went, or has other labels."""
        if isinstance(event, NodeSpec | Removed):
            known = self._by_name = self._by_name or {}
            after = event if isinstance(event, NodeSpec) else None
            if known.get(event.name) == after:
                return False
            if after is None:
                del known[event.name]
            else:
                known[event.name] = after
        else:
            listed = {node.name: node for node in event}
            if self._by_name == listed:
                return False
            self._by_name = listed
        self._layout = None
        return True

    @property
    def layout(self) -> NodeLayout | None:
        """All nodes; None before they are listed."""
        if self._layout is None and self._by_name is not None:
            names = sorted(self._by_name)
            self._layout = NodeLayout(tuple(self._by_name[name] for name in names))
        return self._layout


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Intervals of the controller. Seconds."""

    quiet_seconds: float = 1.0
    """Changes are waited for until none has come for so long: a network is made piece by piece."""
    longest_seconds: float = 10.0
    """But no longer than this."""
    rest_factor: float = 4.0
    """A look is followed by a rest of at least `rest_factor` times its CPU time."""
    retry_seconds: float = 1.0
    """The first pause after a write that failed. Pauses double with each failure."""
    retry_max_seconds: float = 60.0


class HyperNodeController:
    """Keeps the status of HyperNodes."""

    def __init__(
        self,
        api: Api,
        index: Mapping[str, Collection[Described]],
        *,
        observe: Callable[[str, str], None],
        pace: Pace,
        failures: Failures | None = None,
    ) -> None:
        """`index` is Kopf's, by name. Call `changed` when it may have changed."""
        self._api, self._index = api, index
        self._observe, self._pace = observe, pace
        self._failures = failures or Failures()
        self.needs_nodes = asyncio.Event()
        """Set once there is a HyperNode."""
        self._nodes = Nodes()
        self._changed = asyncio.Event()
        self._is_listed = True
        """Whether Kopf has listed objects: it hasn't heard of what went before."""
        self._gone: set[str] = set()
        """UIDs of the index that are gone."""
        self._sent: dict[str, Verdict] = {}
        """What was written to each UID: another controller may count differently."""
        self._judged: tuple[Sequence[HyperNode], NodeLayout, Mapping[str, Verdict]] | None = None
        self._backoff = Backoff[str](
            Growth(
                first_seconds=pace.retry_seconds,
                longest_seconds=pace.retry_max_seconds,
                most=sys.maxsize,
            )
        )
        self._is_refusal_logged = False

    def changed(self, *, listed: bool = False) -> None:
        """Notice that a HyperNode came, changed or went."""
        self._is_listed = self._is_listed or listed
        self._changed.set()

    def feed(self, batch: Sequence[NodeEvent]) -> None:
        """Apply the events of the watch of nodes."""
        for event in batch:
            if self._nodes.apply(event):
                self._changed.set()

    async def run(self) -> None:
        """Run forever: look after changes, and write the differences."""
        self._changed.set()
        while True:
            await self._settled()
            began = time.thread_time()
            with self._failures.contained("hypernodes", "all of them"):
                await self._look()
            await asyncio.sleep(self._pace.rest_factor * (time.thread_time() - began))

    async def _settled(self) -> None:
        """Wait until something has changed or is due, and changes come no more for a while."""
        seconds = self._backoff.next_end - time.monotonic()
        try:
            async with asyncio.timeout(max(0.0, seconds) if self._backoff.pausing else None):
                await self._changed.wait()
        except TimeoutError:
            return
        until = time.monotonic() + self._pace.longest_seconds
        while self._changed.is_set() and time.monotonic() < until:
            self._changed.clear()
            await asyncio.sleep(self._pace.quiet_seconds)

    async def _look(self) -> None:
        """Evaluate all HyperNodes, and write what differs."""
        self._changed.clear()
        if self._is_listed:
            await self._compare()
        every = self._present()
        uids = {each.uid for each in every}
        self._sent = {uid: sent for uid, sent in self._sent.items() if uid in uids}
        if every:
            self.needs_nodes.set()
        layout = self._nodes.layout
        if layout is None:
            return
        found = await self._verdicts([each.value for each in every if each.value], layout)
        self._backoff.ended(time.monotonic())
        steps = [
            (each, verdict)
            for each in every
            if (verdict := _of(each, found)) != self._sent.get(each.uid, each.stored)
            and each.uid not in self._backoff.pausing
        ]
        if len(steps) > WRITES_MAX and ALL not in self._backoff.pausing:
            self._changed.set()
        left = iter(steps[:WRITES_MAX])
        while ALL not in self._backoff.pausing and (some := list(itertools.islice(left, AT_ONCE))):
            await asyncio.gather(*(self._write(each, verdict) for each, verdict in some))

    def _present(self) -> list[Described]:
        every = [each for several in list(self._index.values()) for each in several]
        return [each for each in every if each.uid not in self._gone]

    async def _verdicts(
        self, every: Sequence[HyperNode], layout: NodeLayout
    ) -> Mapping[str, Verdict]:
        """Return what to say of each HyperNode, by name; a written status changes none of it."""
        if self._judged is not None and self._judged[:2] == (every, layout):
            return self._judged[2]
        found = await asyncio.to_thread(verdicts, every, layout)
        self._judged = every, layout, found
        return found

    async def _compare(self) -> None:
        """Find out which HyperNodes of the index are gone."""
        before = {each.uid for several in self._index.values() for each in several}
        if not before:
            return
        self._is_listed = False
        try:
            listed = await self._api.list(paths.HYPER_NODES.everywhere, metadata_only=True)
        except RefusedError:
            self._is_listed = True
        else:
            self._gone = before - {each["metadata"]["uid"] for each in listed}

    async def _write(self, each: Described, verdict: Verdict) -> None:
        body = applied(each, verdict)
        try:
            path = paths.HYPER_NODES.status(each.name)
            await self._api.patch(path, body, ports.APPLY_PATCH, MANAGER)
        except RefusedError as error:
            self._observe("hypernode", str(error.trouble))
            if error.trouble is Trouble.MISSING:
                self._gone.add(each.uid)
                return
            key = ALL if error.trouble in ports.LASTING else each.uid
            self._backoff.failed(key, time.monotonic())
            if not self._is_refusal_logged:
                log.warning("hypernode.not_kept", hypernode=each.name, message=str(error))
            self._is_refusal_logged = True
        else:
            self._sent[each.uid] = verdict
            self._backoff.succeeded(each.uid)
            self._backoff.succeeded(ALL)
            self._is_refusal_logged = False
            self._observe("hypernode", "written")


def _of(each: Described, found: Mapping[str, Verdict]) -> Verdict:
    if each.value is None:
        return Verdict(node_count=0, reason=UNREADABLE, message=_short(each.problem))
    return found.get(each.name) or Verdict(node_count=0)

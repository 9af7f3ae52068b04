"""The problem to solve: equal pods, nodes, and what decides whether they fit together.

Plain data, so that a solution or a proof depends on nothing else. Rows are nodes, as everywhere in
the core; kinds are numbered in the order of `Problem.kinds`.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

PLENTY = 2**62
"""How much there is of what nothing limits."""


class EqualPods(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Equal pods of the gang."""

    count: int
    request: Ints
    """(R,), the pod slot included."""
    usable: Flags
    """Nodes (N,) that take such a pod, as far as free amounts and the rules below don't decide."""
    scores: NDArray[np.float64] | None = None
    """(N,), higher is better; None if all are equal."""
    reserved: Ints | None = None
    """What of the free amounts is reserved against such pods, (N, R); None if nothing is."""


class Apart(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Kinds that keep each other out of a topology domain: anti-affinity, or equal host ports."""

    codes: Ints
    """The domain of each node (N,); -1 for nodes without the label, which don't matter."""
    pairs: Flags
    """(K, K), symmetric."""


class Near(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The required affinity of one kind: a domain must already have one of the pods asked for."""

    kind: int
    codes: Sequence[Ints]
    """By topology key, the domain of each node (N,)."""
    present: Sequence[Ints]
    """By topology key, the number of such pods in each domain; the last element is 0."""
    counted: Flags
    """Kinds (K,) that are asked for."""
    first_anywhere: bool
    """Whether the first pod may go anywhere: it is one of those asked for, and there are none."""


class Spread(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A topology spread constraint of one kind."""

    kind: int
    codes: Ints
    """The domain of each node (N,); -1 for nodes without the label, which take no such pod."""
    eligible: Flags
    """Nodes (N,) on which pods count."""
    present: Ints
    """Numbers of pods by domain; the last element is 0."""
    domains: Ints
    """The domains that count for the minimum."""
    few: bool
    """Whether there are fewer domains than minDomains, so that the minimum is 0."""
    counted: Flags
    """Kinds (K,) that count."""
    counts_itself: bool
    max_skew: int


class Volumes(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Existing volumes (P) that claims of the pods compete for: each is for one claim."""

    own: tuple[tuple[int, ...], ...]
    """By kind, the demands (D) of the claims that each of its pods has for itself."""
    shared: tuple[tuple[int, ...], ...]
    """By kind, the claims that its pods use together, and perhaps with pods of other kinds."""
    shared_demands: tuple[int, ...]
    """The demand of each shared claim. All its pods must reach its volume."""
    fits: Flags
    """Volumes that satisfy a demand, (D, P)."""
    reach: tuple[Ints, ...]
    """By volume, the rows on which it can be used."""
    provided: Flags
    """Rows on which a demand is satisfied without any of the volumes, (D, N)."""


class Attached(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The attach limit of one driver: how many volumes a node can have."""

    room: Ints
    """How many more each node can have, (N,)."""
    own: Ints
    """By kind, how many volumes each pod brings that no other pod of the gang has, (K,)."""
    shared: Flags
    """Kinds (K, H) that use a volume that others may use; on each node it counts once."""
    there: Flags
    """Nodes (H, N) that have such a volume already."""


class Pool(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Nodes on which the pods together may ask for so much, whatever is free."""

    rows: Flags
    """(N,)."""
    room: Ints
    """(R,)."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """At least so many pods of these kinds are needed."""

    kinds: tuple[int, ...]
    least: int


class SubGroups(msgspec.Struct, frozen=True, kw_only=True):
    """The sub-groups of one policy: each has all of its size or no pod, and enough have it."""

    groups: tuple[Requirement, ...]
    whole: int
    """How many sub-groups are needed."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Find nodes for enough of these pods."""

    kinds: tuple[EqualPods, ...]
    free: Ints
    """(N, R)."""
    requirements: tuple[Requirement, ...]
    sub_groups: tuple[SubGroups, ...] = ()
    queue_room: Ints | None = None
    """(R,), what the pods may ask for in all by the limits of their queue; None if they may all be
    placed. A resource for which no placed pod asks doesn't matter."""
    pools: tuple[Pool, ...] = ()
    idle: Ints | None = None
    """What of `free` is there without evictions, (N, R); None if all is. What pods ask for above
    that is to be little."""
    apart: tuple[Apart, ...] = ()
    near: tuple[Near, ...] = ()
    spread: tuple[Spread, ...] = ()
    volumes: Volumes | None = None
    attached: tuple[Attached, ...] = ()
    exact: bool = True
    """Whether the problem shows all that decides. Otherwise it may be stricter than the filters
    are, and a search that finds nothing proves nothing."""

    @property
    def cells(self) -> int:
        """Nodes times kinds of pods."""
        return len(self.free) * len(self.kinds)

    @property
    def rules(self) -> int:
        """How many rules there are about more than one pod."""
        return len(self._rules())

    def _rules(self) -> "tuple[Rule, ...]":
        volumes = () if self.volumes is None else (self.volumes,)
        return (
            *(*self.pools, *self.apart, *self.near, *self.spread),
            *(*volumes, *self.attached),
        )

    def key(self) -> bytes:
        """Return all that the answer depends on, but for the order of preference."""
        return b"\0".join(self._parts())

    def only(self, counts: Sequence[int]) -> "Problem":
        """Return the problem of placing all of so many pods of each kind, and nothing else.

        No rule may be about other kinds of pods than those it constrains.
        """
        kept = [kind for kind, count in enumerate(counts) if count]
        numbers = {kind: number for number, kind in enumerate(kept)}
        every = Requirement(kinds=tuple(range(len(kept))), least=sum(counts))
        return replace(
            self,
            kinds=tuple(replace(self.kinds[kind], count=counts[kind]) for kind in kept),
            requirements=(every,),
            sub_groups=(),
            apart=tuple(replace(rule, pairs=rule.pairs[np.ix_(kept, kept)]) for rule in self.apart),
            spread=tuple(
                replace(rule, kind=numbers[rule.kind], counted=rule.counted[kept])
                for rule in self.spread
                if rule.kind in numbers
            ),
            volumes=None
            if self.volumes is None
            else replace(
                self.volumes,
                own=tuple(self.volumes.own[kind] for kind in kept),
                shared=tuple(self.volumes.shared[kind] for kind in kept),
            ),
            attached=tuple(
                replace(rule, own=rule.own[kept], shared=rule.shared[kept])
                for rule in self.attached
            ),
        )

    def without_nodes(self) -> "Problem":
        """Return the problem of choosing pods that the queue may have, wherever they are."""
        assert self.queue_room is not None
        anywhere = np.ones(1, dtype=np.bool_)
        return Problem(
            kinds=tuple(replace(kind, usable=anywhere, scores=None) for kind in self.kinds),
            free=self.queue_room[np.newaxis],
            requirements=self.requirements,
            sub_groups=self.sub_groups,
            queue_room=self.queue_room,
        )

    def _parts(self) -> Iterator[bytes]:
        yield np.array(self.free.shape).tobytes()
        yield self.free.tobytes()
        yield repr((self.requirements, self.sub_groups, self.exact)).encode()
        for amounts in (self.queue_room, self.idle):
            yield b"" if amounts is None else amounts.tobytes()
        for kind in self.kinds:
            yield str(kind.count).encode()
            yield kind.request.tobytes()
            yield np.packbits(kind.usable).tobytes()
            yield b"" if kind.reserved is None else kind.reserved.tobytes()
        for rule in self._rules():
            yield type(rule).__name__.encode()
            for name in rule.__struct_fields__:
                value = getattr(rule, name)
                for part in value if isinstance(value, tuple) else (value,):
                    yield part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode()


Rule: TypeAlias = Pool | Apart | Near | Spread | Volumes | Attached


class Found(msgspec.Struct, frozen=True):
    """The whole gang fits."""

    places: tuple[tuple[int, int], ...]
    """Kind and row of each pod, in an order in which all filters pass."""


class Impossible(msgspec.Struct, frozen=True):
    """The gang can't fit, whatever is tried."""

    counts: tuple[int, ...] = ()
    """By kind, pods that don't fit together; empty if the gang needs only some of its pods."""
    irreducible: bool = False
    """Whether they would fit together with any one of them left out."""


class CutShort(msgspec.Struct, frozen=True):
    """Nothing was found within the budget."""


Answer: TypeAlias = Found | Impossible | CutShort


SETS_MAX = 4
"""Of how many different demands all sets are columns; of more, the single ones and all of them."""


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """What the pods of a gang ask for and nodes have, by column."""

    requests: Ints
    """(K, C)."""
    free: Ints
    """(N, C)."""
    idle: Ints
    """What of `free` is there without evictions, (N, C)."""
    shared: tuple[Pool, ...] = ()
    """Nodes that share what they have, with room for these columns only."""

    def add_to(self, whole: Problem) -> Problem:
        """Return the problem with these columns. Its own columns come first."""
        plenty = np.full(self.free.shape[1], PLENTY, dtype=np.int64)
        before = np.full(whole.free.shape[1], PLENTY, dtype=np.int64)
        nothing = np.zeros_like(self.free)
        room = whole.queue_room
        return replace(
            whole,
            kinds=tuple(
                replace(
                    kind,
                    request=np.concatenate([kind.request, self.requests[at]]),
                    reserved=None
                    if kind.reserved is None
                    else np.concatenate([kind.reserved, nothing], axis=1),
                )
                for at, kind in enumerate(whole.kinds)
            ),
            free=np.concatenate([whole.free, self.free], axis=1),
            idle=None if whole.idle is None else np.concatenate([whole.idle, self.idle], axis=1),
            queue_room=None if room is None else np.concatenate([room, plenty]),
            pools=(
                *(replace(pool, room=np.concatenate([pool.room, plenty])) for pool in whole.pools),
                *(
                    Pool(rows=each.rows, room=np.concatenate([before, each.room]))
                    for each in self.shared
                    if each.rows.any()
                ),
            ),
        )

    def on(self, rows: Ints) -> "Columns":
        """Return the columns of these nodes alone."""
        return replace(
            self,
            free=self.free[rows],
            idle=self.idle[rows],
            shared=tuple(replace(each, rows=each.rows[rows]) for each in self.shared),
        )


def demand_sets(size: int) -> Iterator[tuple[int, ...]]:
    """Yield the sets of so many demands that are columns."""
    if size <= SETS_MAX:
        for count in range(1, size + 1):
            yield from itertools.combinations(range(size), count)
        return
    yield from ((at,) for at in range(size))
    yield tuple(range(size))

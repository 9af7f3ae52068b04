"""Ledgers: what queues have, were promised and may have, in one cycle."""


class Ledger:
    """What one queue with jobs has and may have, one amount per column."""

    __slots__ = (
        *("allocated", "ceiling", "deserved", "enough", "limit", "most", "promised", "real"),
        *("share", "surely"),
    )

    def __init__(self, size: int) -> None:
        self.allocated = [0] * size
        self.promised = [0] * size
        """To admitted groups that don't have it yet, less what groups have above their minimum
        (Volcano: inqueue, elastic)."""
        self.real: list[float] = []
        """The most that it can have in this cluster."""
        self.ceiling: list[float] = []
        """The most that it could have in any: its capability."""
        self.deserved: list[float] = []
        self.limit: list[float] = []
        """The most that it may have where a pod asks for something."""
        self.surely: list[float] = []
        """Having more than this of something, it is above its share."""
        self.most: list[float] = []
        """The most that it may have where room was promised to it, by its capability alone."""
        self.enough: list[float] = []
        """Having this much of everything, it is overused."""
        self.share: float | None = None
        """Until something changes."""

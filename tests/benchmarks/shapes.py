"""What is to be scheduled: so many nodes, so many gangs of so many pods."""

import re
from dataclasses import dataclass
from typing import Self

FORM = re.compile(r"(\d+)x(\d+)x(\d+)(?:@(\d+)|\+(\d+)|/(\d+))?")

START_SECONDS = 12.0
"""Of a control plane, and of giving it back."""
NODES_PER_SECOND = 350.0
CREATED_PER_SECOND = 600.0
CLAIMS_PER_SECOND = 150.0
"""Made from templates by the controller manager."""
BOUND_PER_SECOND = 400.0
BOUND_WITH_CHOICES_PER_SECOND = 50.0
"""With devices or racks."""
SETTLE_SECONDS = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Gangs need all their pods; each pod asks for 1 CPU and 1 GiB, a node has 32 and 128."""

    nodes: int
    gangs: int
    size: int
    """Pods per gang."""
    rate: int = 0
    """Pods created per second while the scheduler runs; 0: all are there before it starts."""
    devices: int = 0
    """GPUs of each node. If there are any, each pod has a claim for one or two of them."""
    racks: int = 0
    """So many racks of equally many nodes; if there are any, each gang has to be in one of them."""

    @classmethod
    def read(cls, text: str) -> Self:
        """Of `500x100x20`, `100x1000x1@100`, `500x100x4+16`, `5000x750x4/50`; else ValueError."""
        found = FORM.fullmatch(text)
        numbers = [int(number or 0) for number in found.groups()] if found else []
        if not numbers or not all(numbers[:3]):
            raise ValueError(
                f"{text}: a shape is NODESxGANGSxSIZE, and perhaps @RATE, +DEVICES or /RACKS"
            )
        nodes, gangs, size, rate, devices, racks = numbers
        return cls(nodes=nodes, gangs=gangs, size=size, rate=rate, devices=devices, racks=racks)

    @property
    def pods(self) -> int:
        """Pods in all."""
        return self.gangs * self.size

    @property
    def seconds(self) -> float:
        """About how long one run takes, the control plane's start included."""
        created = self.pods / (self.rate or CREATED_PER_SECOND)
        made = self.nodes / NODES_PER_SECOND + created
        if self.devices:
            made += self.nodes / NODES_PER_SECOND + self.pods / CLAIMS_PER_SECOND
        chooses = self.devices or self.racks
        rate = BOUND_WITH_CHOICES_PER_SECOND if chooses else BOUND_PER_SECOND
        return START_SECONDS + made + self.pods / rate + SETTLE_SECONDS

    def __str__(self) -> str:
        text = f"{self.nodes}x{self.gangs}x{self.size}"
        if self.devices:
            return f"{text}+{self.devices}"
        if self.racks:
            return f"{text}/{self.racks}"
        return f"{text}@{self.rate}" if self.rate else text


ALL = tuple(
    map(
        Shape.read,
        (
            "500x100x20",
            "5000x100x100",
            "1000x50x16",
            "100x10x100",
            "100x1000x1",
            "100x1000x1@100",
            "100x3000x1@300",
            "100x50x20",
            "100x2x500",
            "100x1x1000",
            "500x1000x1",
            "1000x1000x3",
            "500x100x4+16",
            "5000x1000x4+16",
            "5000x750x4/50",
            "5000x3x1000/50",
            "500x1x512/10",
        ),
    )
)
"""The first five are those of published comparisons; docs/benchmarks.md says what each is for."""

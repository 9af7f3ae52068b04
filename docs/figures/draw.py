"""Draw the figures of the documentation: `python docs/figures/draw.py` writes SVG files beside it.

Each figure places its boxes by hand.
"""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).parent

PURE, EDGE, OUTSIDE = "#d9ead7", "#dce6f5", "#eeeeee"
"""Fills: pure code, code that does input and output, and what is not ours."""
INK, FAINT = "#1b2430", "#5b6675"


@dataclass
class Figure:
    """A drawing in progress; x grows to the right and y downwards, in pixels."""

    title: str
    width: int
    height: int
    parts: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, words: str, *, size: int = 13, **style: str) -> None:
        """Write one line; `anchor` is start, middle or end, `weight` normal or bold."""
        anchor = style.get("anchor", "middle")
        weight = style.get("weight", "normal")
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"'
            f' font-weight="{weight}" fill="{style.get("fill", INK)}">{escape(words)}</text>'
        )

    def box(self, x: int, y: int, size: tuple[int, int], fill: str, *lines: str) -> None:
        """Draw a box with its name in bold and further lines below it."""
        width, height = size
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}"'
            f' stroke="{FAINT}"/>'
        )
        top = y + (height - 17 * (len(lines) - 1)) / 2 + 5
        for number, line in enumerate(lines):
            weight = "normal" if number else "bold"
            self.text(x + width / 2, top + 17 * number, line, weight=weight)

    def frame(self, x: int, y: int, size: tuple[int, int], name: str) -> None:
        """Draw a dashed border around boxes that belong together, such as a process."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{size[0]}" height="{size[1]}" rx="10" fill="none"'
            f' stroke="{FAINT}" stroke-dasharray="5 4"/>'
        )
        self.text(x + 12, y + 20, name, anchor="start", fill=FAINT, weight="bold")

    def arrow(
        self, *points: tuple[int, int], label: str = "", at: tuple[int, int] = (0, 0)
    ) -> None:
        """Draw a line through the points with a head at its end, and its label at `at`."""
        path = " ".join(f"{x},{y}" for x, y in points)
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{INK}" stroke-width="1.5"'
            ' marker-end="url(#head)"/>'
        )
        if label:
            self.text(*at, label, size=12, fill=FAINT)

    def svg(self) -> str:
        """The whole file."""
        head = (
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8"'
            ' markerHeight="8" orient="auto-start-reverse">'
            f'<path d="M0,0 L10,5 L0,10 z" fill="{INK}"/></marker></defs>'
        )
        ground = f'<rect width="{self.width}" height="{self.height}" rx="8" fill="#ffffff"/>'
        start = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" role="img"'
            f' viewBox="0 0 {self.width} {self.height}" font-family="Helvetica, sans-serif">'
        )
        return "\n".join(
            [
                start,
                f"<title>{escape(self.title)}</title>",
                head,
                ground,
                *self.parts,
                "</svg>\n",
            ]
        )


def one_cycle() -> Figure:
    """Show how events become decisions, and decisions become calls."""
    figure = Figure("One scheduling cycle", 930, 330)
    figure.box(20, 40, (150, 250), OUTSIDE, "API server")
    figure.box(240, 40, (150, 60), EDGE, "reflector", "list and watch")
    figure.box(460, 40, (160, 60), PURE, "Mirror", "the cluster as known")
    figure.box(690, 40, (160, 60), PURE, "Snapshot", "frozen, with time")
    figure.box(690, 150, (160, 60), PURE, "run_cycle", "actions and plugins")
    figure.box(
        460, 230, (390, 60), PURE, "CycleResult", "binds, evictions, statuses, reasons, wake_at"
    )
    figure.box(240, 230, (150, 60), EDGE, "writes", "binder, evictor, status")
    figure.arrow((170, 70), (238, 70), label="watch", at=(204, 62))
    figure.arrow((390, 70), (458, 70), label="events", at=(424, 62))
    figure.arrow((620, 70), (688, 70), label="when due", at=(654, 62))
    figure.arrow((770, 100), (770, 148))
    figure.arrow((770, 210), (770, 228))
    figure.arrow((460, 260), (392, 260), label="carry out", at=(426, 252))
    figure.arrow((240, 260), (172, 260), label="calls", at=(206, 252))
    figure.arrow((500, 230), (500, 102), label="assume binds", at=(546, 160))
    figure.arrow((350, 230), (350, 165), (480, 165), (480, 102), label="outcome", at=(398, 158))
    figure.arrow((850, 260), (870, 260), (870, 70), (852, 70), label="Carried", at=(898, 165))
    legend(figure, 312)
    return figure


def how_it_works() -> Figure:
    """Show what happens to jobs: from their queue to nodes, or to a reason."""
    figure = Figure(
        "How it works: jobs wait in queues, gangs get nodes, people get reasons", 930, 330
    )
    figure.box(20, 30, (150, 56), OUTSIDE, "team vision", "Jobs, RayJobs, Spark")
    figure.box(20, 110, (150, 56), OUTSIDE, "team speech", "Deployments, pods")
    figure.box(230, 30, (150, 56), EDGE, "queue vision", "has 24 of 32 GPUs")
    figure.box(230, 110, (150, 56), EDGE, "queue speech", "has 40 of 32 GPUs")
    figure.box(
        450, 55, (190, 90), PURE, "one cycle", "whose turn is it?", "does the whole gang fit?"
    )
    figure.frame(750, 20, (170, 160), "nodes")
    figure.box(760, 50, (150, 34), PURE, "8 of 8: gang A")
    figure.box(760, 94, (150, 34), PURE, "8 of 8: gang A")
    figure.box(760, 138, (150, 30), OUTSIDE, "4 of 8: others")
    figure.box(450, 230, (190, 66), EDGE, "reason", "needs 8 GPUs more,", "3rd of 5 in its queue")
    figure.box(740, 230, (180, 66), EDGE, "eviction", "only if the whole gang", "then has nodes")
    figure.arrow((170, 58), (228, 58))
    figure.arrow((170, 138), (228, 138))
    figure.arrow((380, 58), (448, 85))
    figure.arrow((380, 138), (448, 115))
    figure.arrow((640, 100), (748, 100), label="all or nothing", at=(694, 92))
    figure.arrow((545, 145), (545, 228), label="waits", at=(522, 190))
    figure.arrow((640, 145), (738, 245), label="others borrow its share", at=(762, 205))
    figure.arrow((830, 230), (830, 182), label="frees", at=(850, 210))
    figure.arrow((450, 263), (95, 263), (95, 168), label="told to people", at=(272, 255))
    return figure


def legend(figure: Figure, y: int) -> None:
    """Explain the fills."""
    x = 240
    for fill, words in ((PURE, "pure code"), (EDGE, "input and output"), (OUTSIDE, "not ours")):
        figure.parts.append(
            f'<rect x="{x}" y="{y - 10}" width="14" height="12" fill="{fill}" stroke="{FAINT}"/>'
        )
        figure.text(x + 20, y, words, size=12, anchor="start", fill=FAINT)
        x += 150


def processes() -> Figure:
    """Show the two processes of an instance, and their threads."""
    figure = Figure("Processes and threads", 930, 380)
    figure.frame(190, 20, (720, 190), "process: scheduler (vscheduler run)")
    figure.box(210, 55, (200, 130), EDGE, "main", "watches, Mirror, writes,", "health, metrics")
    figure.box(500, 55, (180, 56), PURE, "cycle", "run_cycle")
    figure.box(500, 129, (180, 56), EDGE, "leases", "leader election")
    figure.box(710, 55, (180, 36), EDGE, "page")
    figure.box(710, 102, (180, 36), EDGE, "watchdog")
    figure.box(710, 149, (180, 36), EDGE, "log")
    figure.arrow((410, 72), (498, 72), label="Snapshot", at=(454, 65))
    figure.arrow((500, 97), (412, 97), label="result", at=(454, 112))
    figure.arrow((500, 157), (412, 157), label="may act", at=(456, 150))
    figure.frame(190, 240, (720, 120), "process: controllers (its child, or --only controllers)")
    figure.box(210, 275, (200, 66), EDGE, "main", "Kopf, Queues, PodGroups")
    figure.box(500, 275, (180, 66), EDGE, "leases", "leader election")
    figure.box(710, 275, (180, 66), EDGE, "watchdog, log")
    figure.arrow((500, 308), (412, 308), label="may act", at=(456, 301))
    figure.arrow((310, 185), (310, 273), label="starts, asks for metrics", at=(382, 226))
    figure.box(20, 55, (120, 286), OUTSIDE, "API server")
    for y in (110, 300):
        figure.arrow((140, y), (208, y))
        figure.arrow((210, y + 14), (142, y + 14))
    return figure


GANG, OTHERS, FREE = "#3b7a57", "#9aa5b1", "#ffffff"
"""Fills of pods: of the gang, of other jobs, and of the room for one more."""

RACKS = (
    ("rack-1: room for 6, too small", (OTHERS,) * 6 + (FREE,) * 6),
    ("rack-2: room for 9, least left over", (OTHERS,) * 3 + (GANG,) * 8 + (FREE,)),
    ("rack-3: room for 12, stays whole", (FREE,) * 12),
)
"""The racks of the figure, each with what is on its four nodes of three places."""


def network() -> Figure:
    """Show a gang of eight pods that is placed in one rack."""
    figure = Figure("A gang of 8 pods in one rack", 930, 300)
    figure.box(390, 20, (150, 50), OUTSIDE, "spine-1", "tier 2")
    for number, (name, pods) in enumerate(RACKS):
        left = 20 + 300 * number
        figure.arrow((465, 70), (left + 145, 100))
        figure.frame(left, 102, (290, 160), name)
        for node in range(4):
            x = left + 14 + 67 * node
            figure.box(x, 136, (60, 112), OUTSIDE, f"n{4 * number + node + 1}", *[""] * 5)
            for place, fill in enumerate(pods[3 * node : 3 * node + 3]):
                pod(figure, x + 15, 167 + 26 * place, fill)
    x = 240
    for fill, words in ((GANG, "pods of the gang"), (OTHERS, "other pods"), (FREE, "free")):
        pod(figure, x, 272, fill)
        figure.text(x + 38, 287, words, size=12, anchor="start", fill=FAINT)
        x += 180
    return figure


def pod(figure: Figure, x: int, y: int, fill: str) -> None:
    """Draw a pod, or a place for one."""
    figure.parts.append(
        f'<rect x="{x}" y="{y}" width="30" height="21" rx="4" fill="{fill}" stroke="{FAINT}"/>'
    )


PAGE = HERE.parent / "benchmarks.md"
NUMBER = r"([\d,.]*\d)"
PAIR = re.compile(rf"^\|.*\| (?:kube-scheduler|vscheduler) \| {NUMBER} \(", re.MULTILINE)
"""Rows of the first table: kube-scheduler's, and the one below it."""
CASE = re.compile(rf"^\| ([^|]+): pods/s[^|]* \| {NUMBER}[^|]* \| {NUMBER}[^|]* \|$", re.MULTILINE)
WORKLOAD = re.compile(
    rf"^\| ([^|]+) \| [\d,]+ \| {NUMBER} \| {NUMBER} \| [\d.]+ \| [\d.]+ / [\d.]+ \|$", re.MULTILINE
)
LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")
SHAPES = ("500 nodes, 100 gangs of 20", "5,000 nodes, 100 gangs of 100")


def speeds() -> list[tuple[str, str, str]]:
    """Return the shapes of the first table of the page, with kube-scheduler's pods per second, and
    ours.
    """
    found = PAIR.findall(PAGE.read_text(encoding="utf-8"))
    return [*zip(SHAPES, found[::2], found[1::2], strict=True)]


def throughput() -> Figure:
    """Show the pods bound per second, beside kube-scheduler."""
    figure = Figure("Pods bound per second", 720, 220)
    y, scale = 30, 0.27
    for shape, theirs, ours in speeds():
        figure.text(20, y, shape, anchor="start", weight="bold")
        for name, pods, fill in (
            ("kube-scheduler", theirs, "#9aa5b1"),
            ("vscheduler", ours, "#3b7a57"),
        ):
            y += 30
            width = float(pods.replace(",", "")) * scale
            figure.text(140, y + 5, name, anchor="end")
            figure.parts.append(
                f'<rect x="150" y="{y - 10}" width="{width:g}" height="20" fill="{fill}"/>'
            )
            figure.text(158 + width, y + 5, f"{pods} pods/s", anchor="start")
        y += 45
    return figure


def beside_kube_scheduler() -> Figure:
    """Show the throughput of all cases, divided by kube-scheduler's, on a logarithmic scale."""
    page = PAGE.read_text(encoding="utf-8")
    cases = speeds() + CASE.findall(page) + WORKLOAD.findall(page)
    figure = Figure("Throughput beside kube-scheduler's", 720, 60 + 22 * len(cases))
    left, doubling = 350, 56
    bottom = figure.height - 30
    for power in range(6):
        x = left + doubling * power
        figure.parts.append(f'<path d="M{x},20 V{bottom}" stroke="{OUTSIDE}"/>')
        figure.text(x, bottom + 18, f"{2**power} x", size=12, fill=FAINT)
    for number, (name, theirs, ours) in enumerate(cases):
        y = 34 + 22 * number
        before, after = (float(each.replace(",", "")) for each in (theirs, ours))
        width = doubling * math.log2(after / before)
        figure.text(left - 10, y + 4, LINK.sub(r"\1", name), anchor="end", size=12)
        figure.parts.append(
            f'<rect x="{left + min(width, 0):g}" y="{y - 7}" width="{abs(width):g}" height="14"'
            f' fill="#3b7a57"/>'
        )
        words = f"{theirs} → {ours}"
        figure.text(left + max(width, 0) + 8, y + 4, words, anchor="start", size=11, fill=FAINT)
    return figure


RUNS = {
    "backfill: none": (
        *(("a", 0, 2, 0, 20), ("b", 2, 1, 0, 30), ("c", 3, 1, 4, 14), ("d", 3, 1, 14, 49)),
        *(("e", 0, 1, 20, 35), ("f", 1, 1, 20, 45), ("h", 2, 1, 32, 52), ("g", 0, 2, 45, 85)),
        ("large", 0, 4, 85, 105),
    ),
    "backfill: easy": (
        *(("a", 0, 2, 0, 20), ("b", 2, 1, 0, 30), ("c", 3, 1, 4, 14), ("e", 3, 1, 14, 29)),
        *(("large", 0, 4, 30, 50), ("d", 0, 1, 50, 85), ("f", 1, 1, 50, 75)),
        *(("g", 2, 2, 50, 90), ("h", 1, 1, 75, 95)),
    ),
}
"""When nine jobs run on four nodes, as `vscheduler replay` says: the job, its first node and how
many it has, and from which minute to which. The large one is submitted at 2.
"""


def backfill() -> Figure:
    """Show when jobs run on nodes, without backfill and with it."""
    figure = Figure("A large job without backfill, and with it", 760, 340)
    for number, (name, runs) in enumerate(RUNS.items()):
        top = 40 + 160 * number
        figure.text(20, top - 12, name, anchor="start", weight="bold")
        for node in range(4):
            figure.text(72, top + 26 * node + 18, f"node {node + 1}", anchor="end", fill=FAINT)
        for job, first, nodes, start, end in runs:
            fill = "#3b7a57" if job == "large" else EDGE
            x, y = 80 + 6 * start, top + 26 * first
            figure.parts.append(
                f'<rect x="{x}" y="{y}" width="{6 * (end - start)}" height="{26 * nodes}"'
                f' fill="{fill}" stroke="{FAINT}"/>'
            )
            ink = "#ffffff" if job == "large" else INK
            figure.text(x + 3 * (end - start), y + 13 * nodes + 5, job, fill=ink)
        for minute in range(0, 120, 30):
            figure.text(80 + 6 * minute, top + 120, f"{minute} min", fill=FAINT)
    return figure


FIGURES = {
    "backfill.svg": backfill,
    "beside-kube-scheduler.svg": beside_kube_scheduler,
    "how-it-works.svg": how_it_works,
    "network.svg": network,
    "one-cycle.svg": one_cycle,
    "processes.svg": processes,
    "throughput.svg": throughput,
}
"""Each file, and what draws it."""


def main() -> None:
    """Write all figures."""
    for name, draw in FIGURES.items():
        (HERE / name).write_text(draw().svg())


if __name__ == "__main__":
    main()

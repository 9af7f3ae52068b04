"""Takes pictures of the page, to be looked at: `python -m tests.web.screenshots DIRECTORY`.

With `--docs` it makes the pictures of docs/images instead.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.web import browsers, clusters, pasts, stage
from tests.web.browsers import Person
from tests.web.stage import Stage

WIDTHS = (360, 1280, 1600, 2200)
HEIGHT_MAX = 3000
DOCS_HEIGHT = 900
SETTLE_SECONDS = 0.5
JOB, QUEUE = "job/vision/pretrain-vit-000c", "queue/vision"

Picture = tuple[str, str, str, str]
"""Cluster, address, token, and name."""


def _past(made: Stage) -> Stage:
    made.decide()
    made.remember_an_hour()
    return made


def _kept(made: Stage) -> Stage:
    made.history = pasts.two_weeks(Path(tempfile.mkdtemp()) / "history.db", made.now)
    return _past(made)


CLUSTERS: dict[str, Callable[[float], Stage]] = {
    "idle": lambda now: Stage(clusters.idle(), now),
    "three": lambda now: _past(Stage(clusters.three_queues(now), now)),
    "racks": lambda now: _past(Stage(clusters.racks(now), now)),
    "kept": lambda now: _kept(Stage(clusters.racks(now), now)),
    "devices": lambda now: Stage(clusters.devices(now), now),
    "large": lambda now: Stage(clusters.large(now), now, budget=5_000_000),
}

PICTURES: tuple[Picture, ...] = (
    ("idle", "", stage.ADMIN, "overview"),
    ("three", "", stage.ADMIN, "overview"),
    ("three", "", stage.TENANT, "tenant"),
    ("three", "", stage.STRANGER, "stranger"),
    *(
        ("racks", address, stage.ADMIN, name)
        for address, name in (
            ("", "overview"),
            ("jobs", "jobs"),
            (JOB, "job"),
            ("job/vision/train-resnet-000c", "running-job"),
            ("queues", "queues"),
            (QUEUE, "queue"),
            ("nodes", "nodes"),
            ("nodes?node=gpu-12&search=speech", "node"),
            ("nodes?resource=cpu", "nodes-cpu"),
            ("decisions", "decisions"),
        )
    ),
    ("racks", "history", stage.ADMIN, "no-history"),
    ("kept", "history?since=7d", stage.ADMIN, "history"),
    ("kept", QUEUE, stage.ADMIN, "queue"),
    ("kept", "job/vision/run-13", stage.ADMIN, "past-job"),
    ("devices", "nodes?node=gpu-3", stage.ADMIN, "nodes"),
    *(("large", view, stage.ADMIN, view or "overview") for view in ("", "jobs", "queues", "nodes")),
)

DOCS: tuple[Picture, ...] = (
    ("racks", "", stage.ADMIN, "page-overview"),
    ("racks", "nodes", stage.ADMIN, "page-nodes"),
    ("kept", "history?since=7d", stage.ADMIN, "page-history"),
)


def take(
    person: Person, url: str, picture: Picture, width: int, scheme: str, most: int = HEIGHT_MAX
) -> bytes:
    """Return a PNG of the view, of at most so many pixels of it from above."""
    _, address, token, _ = picture
    person.open(f"{url}#/{address}", width, scheme)
    person.sign_in(token)
    time.sleep(SETTLE_SECONDS)
    height = person.driver.execute_script("return document.body.scrollHeight")
    person.resize(width, max(600, min(height, most)))
    time.sleep(SETTLE_SECONDS)
    if person.overflow():
        sys.stderr.write(f"{picture} is {person.overflow()} pixels too wide at {width}\n")
    return person.driver.get_screenshot_as_png()


def _by_cluster(pictures: tuple[Picture, ...]) -> Iterator[tuple[str, list[Picture]]]:
    for name in dict.fromkeys(picture[0] for picture in pictures):
        yield name, [picture for picture in pictures if picture[0] == name]


def main(arguments: list[str]) -> int:
    """Take all pictures into a directory."""
    docs = arguments == ["--docs"]
    place = Path("docs/images") if docs else Path(arguments[0])
    place.mkdir(parents=True, exist_ok=True)
    with browsers.person() as person:
        for cluster, pictures in _by_cluster(DOCS if docs else PICTURES):
            with stage.served(CLUSTERS[cluster](time.time())) as url:
                for picture in pictures:
                    for width in (1280,) if docs else WIDTHS:
                        for scheme in ("light",) if docs else ("light", "dark"):
                            name = f"{cluster}-{picture[3]}-{width}-{scheme}.png"
                            most = DOCS_HEIGHT if docs else HEIGHT_MAX
                            found = take(person, url, picture, width, scheme, most)
                            (place / (f"{picture[3]}.png" if docs else name)).write_bytes(found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Grouping of jobs: equal for jobs from one template, different for whatever else differs."""

import pytest

from tests import running
from vscheduler.core.session import job_class
from vscheduler.model.jobs import Job, PodClass
from vscheduler.testing import pictures

BASE = "job q/base min=2 cpu=3 - -"


def job(line: str, namespace: str = "") -> Job:
    """The only job of a picture, in a namespace if one is named."""
    documents = pictures.documents(f"node n1 cpu=8\nqueue q\nqueue other\n{line}")
    for document in documents if namespace else ():
        if document["kind"] in {"Pod", "PodGroup"}:
            document["metadata"]["namespace"] = namespace
    (found,) = running.snapshot_of(documents).jobs
    return found


def key(line: str, namespace: str = "") -> object:
    """Its class key, with classes of pods by what they hold."""
    return pictures_of(job_class.of_waiting(job(line, namespace)))


def pictures_of(class_key: object) -> object:
    """The same, where classes of different pictures are equal if they hold the same."""
    if isinstance(class_key, tuple):
        return tuple(map(pictures_of, class_key))
    if isinstance(class_key, PodClass):
        return class_key.request, class_key.constraints, class_key.hints
    return class_key


def test_jobs_from_one_template_are_alike() -> None:
    """Names don't count."""
    assert key("job q/second min=2 cpu=3 - -") == key(BASE) is not None


@pytest.mark.parametrize(
    "line",
    [
        "job other/base min=2 cpu=3 - -",
        "job q/base min=1 cpu=3 - -",
        "job q/base min=2 cpu=2 - -",
        "job q/base min=2 cpu=3 - - -",
        "job q/base min=2 cpu=3 priority=7 - -",
        "job q/base min=2 cpu=3 preemptable=false - -",
    ],
)
def test_jobs_that_differ_are_not_alike(line: str) -> None:
    """Plugins may tell them apart."""
    assert key(line) != key(BASE)


def test_jobs_of_two_namespaces_are_not_alike() -> None:
    """Quotas are per namespace."""
    assert key(BASE, "elsewhere") != key(BASE)


def test_a_job_that_has_begun_is_like_no_other() -> None:
    """What it still lacks depends on what it has."""
    assert key("job q/base min=2 cpu=3 n1 -") is None

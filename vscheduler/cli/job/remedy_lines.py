"""What would start a waiting job: package explain on the objects of a cluster."""

import gc
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from vscheduler.cli.job import placing
from vscheduler.cli.job.job_figures import Job
from vscheduler.cli.job.placing import Seen
from vscheduler.cli.queue.cluster_client import Kind, Object
from vscheduler.core.config.policy import Policy
from vscheduler.explain import remedies, wording
from vscheduler.explain.remedies import Explanation, NotWaitingError
from vscheduler.mirror import phrases
from vscheduler.simulator import run

UNREADABLE = (
    "What would help isn't known without reading all namespaces, and all that decisions depend on."
)


UNKNOWN = "What would help isn't known: pods with resource claims can't be tried by this command."


def found(
    job: Job,
    seen: Seen,
    around: Sequence[Object] | None,
    policy: Policy,
) -> Explanation | None:
    """Return the changes that would start a waiting job; None where they can't be known, or if the
    job doesn't wait.

    `around` are the objects of `placing.surroundings`. Each change is verified by the scheduler's
    own decisions on these objects, as in `vscheduler simulate --why`.
    """
    if around is None or not seen.complete or not job.waits or _has_claims(job, seen):
        return None
    options = replace(placing.options(seen, job.scheduler), reads=policy.reads)
    given = run.read([*seen.manifests, *around], options)
    gc.freeze()  # a collection would look through the whole cluster
    try:
        return remedies.explain(given, policy, job.key)
    except NotWaitingError:
        return None


def _has_claims(job: Job, seen: Seen) -> bool:
    """Whether pods of the job have resource claims, which aren't among the objects."""
    uids = {pod.uid for pod in job.pods or ()}
    return any(
        (pod.get("spec") or {}).get("resourceClaims")
        for pod in seen.objects.get(Kind.POD, ())
        if pod["metadata"].get("uid", "") in uids
    )


def lines(job: Job, explanation: Explanation | None, *, readable: bool) -> list[str]:
    """Return the changes as lines of text; `readable` says whether the user may read enough.

    None for a job with pods of which no scheduler has said anything: what its scheduler would do
    helps nobody as long as it may not run.
    """
    if not job.waits or (job.total and not job.message):
        return []
    if not readable:
        return [UNREADABLE]
    if explanation is not None:
        return wording.remedy_lines(explanation)
    if job.total == 0:
        return [phrases.without_pods(job.minimum, job.owner)]
    return [UNKNOWN]


def tree(explanation: Explanation | None) -> dict[str, Any] | None:
    """Return the changes as JSON, as `simulate --why` prints them."""
    return None if explanation is None else wording.tree(explanation)

"""What would start a waiting job, as lines of text: package explain on objects of a cluster."""

from collections.abc import Sequence
from dataclasses import replace

from vscheduler.cli.job import job_figures, placing
from vscheduler.cli.queue import cluster_client
from vscheduler.core.config import policy as policies
from vscheduler.explain import remedies, wording
from vscheduler.simulator import run

UNREADABLE = (
    "What would help isn't known without reading all namespaces, and all that decisions depend on."
)


def of(
    job: job_figures.Job,
    seen: placing.Seen,
    around: Sequence[cluster_client.Object] | None,
    policy: policies.Policy,
) -> list[str]:
    """Return the changes that would start a waiting job, one a line.

    `around` are the objects of `placing.surroundings`. Each change is verified by the scheduler's
    own decisions on these objects, as in `vscheduler simulate --why`.
    """
    if around is None or not seen.complete:
        return [UNREADABLE]
    options = replace(placing.options(job.scheduler), reads=policy.reads)
    try:
        found = remedies.explain(run.read([*seen.manifests, *around], options), policy, job.key)
    except remedies.NotWaitingError:
        return []
    return wording.remedy_lines(found)

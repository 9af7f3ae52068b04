"""The flags of leader election: Volcano's names and defaults, but for the Lease's own name."""

from functools import partial

from vscheduler.cli import flags
from vscheduler.daemon.leader_election import election_settings

HEADING = "Leader election"
DEFAULT = election_settings.Given()

_option = partial(flags.option, heading=HEADING, show_default=True)

OPTIONS = (
    flags.switch(
        "--leader-elect",
        "Work only while leading: of several instances with one scheduler name, one does, and "
        "the others stand by.",
        default=DEFAULT.leader_elect,
        show_default=True,
        heading=HEADING,
    ),
    _option(
        election_settings.RESOURCE_NAME,
        "The Lease's name, for an instance with one scheduler name; with several, each Lease is "
        "called like its scheduler.",
        default=DEFAULT.leader_elect_resource_name,
        show_default="the scheduler's name",
    ),
    _option(
        election_settings.NAMESPACE,
        "The namespace of the Leases.",
        default=DEFAULT.leader_elect_resource_namespace,
        show_default=election_settings.DEFAULT_NAMESPACE,
    ),
    _option(
        election_settings.DURATION,
        "How long others wait for a leader that gives no sign of life; whole seconds.",
        default=DEFAULT.leader_elect_lease_duration,
    ),
    _option(
        election_settings.DEADLINE,
        "How long a leader that can't renew its Lease tries to, before it gives up.",
        default=DEFAULT.leader_elect_renew_deadline,
    ),
    _option(
        election_settings.RETRY,
        "How often a leader renews its Lease; others look at it twice as often.",
        default=DEFAULT.leader_elect_retry_period,
    ),
    _option(
        election_settings.LOCK,
        "What elections are about; there is nothing but leases.",
        default=DEFAULT.leader_elect_resource_lock,
    ),
    flags.option(
        election_settings.LOCK_NAMESPACE,
        f"The older name of {election_settings.NAMESPACE}.",
        default=DEFAULT.lock_object_namespace,
        hidden=True,
    ),
)


def election(command: flags.Decorated) -> flags.Decorated:
    """Add them, in the order in which the help has them."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command

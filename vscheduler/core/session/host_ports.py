"""Host ports that pods hold, by the name of their node."""

from vscheduler.core.model import constraints, jobs

Ports = dict[str, tuple[constraints.HostPort, ...]]


def take(ports: Ports, name: str, task: jobs.Task) -> None:
    """The task takes its ports on this node."""
    if task.kind.constraints.ports:
        ports[name] = tuple(sorted((*ports.get(name, ()), *task.kind.constraints.ports)))


def give_back(ports: Ports, name: str, task: jobs.Task) -> None:
    """It gives them back; a node without any isn't in the table."""
    if task.kind.constraints.ports:
        left = list(ports[name])
        for port in task.kind.constraints.ports:
            left.remove(port)
        ports[name] = tuple(left)
        if not left:
            del ports[name]

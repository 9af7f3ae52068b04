"""Spot nodes can disappear at any time: only listed queues may use them, and prefer them."""

from vscheduler.core.api.contracts import Argument, FilterResult, On, Plugin, depends_on

LABEL = Argument(str, "example.com/spot")
QUEUES = Argument(str, "")


class Spot(Plugin):
    name = "spot"
    arguments = {"spot.label": LABEL, "spot.queues": QUEUES}

    def open(self, session):
        self.job_states = session.job_states
        self.welcome = str(self.argument("spot.queues")).replace(",", " ").split()
        self.label = str(self.argument("spot.label"))

    @depends_on(On.QUEUE | On.NODE)
    def queue_nodes(self, queue, layout):
        return None if queue.name in self.welcome else ~self._spot(layout)

    @depends_on(On.CLASS | On.NODE)
    def filter_nodes(self, task, nodes):
        if self.job_states[task.job].job.queue in self.welcome:
            return []
        return [FilterResult("node(s) were spot nodes", ~nodes.of(self._spot(nodes.layout)))]

    @depends_on(On.NODE)
    def score_nodes(self, task, nodes):
        return 100.0 * nodes.of(self._spot(nodes.layout))

    def _spot(self, layout):
        column, _ = layout.label(self.label)
        return column >= 0

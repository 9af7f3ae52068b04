"""For tests of plugins: a cluster in a few lines of text, and what cycles decide on it.

    from vscheduler.testing import decide

    def test_batch_goes_to_spot_nodes_first():
        decisions = decide(
            '''
            node  steady cpu=4
            node  cheap  cpu=4 label=example.com/spot=true
            queue batch
            job   batch/train min=1 cpu=1  -
            ''',
            plugins=[Spot],
            tiers="gang | spot:spot.queues=batch predicates",
        )
        assert decisions.binds == {"train-0": "cheap"}

`pictures` explains the language. No cluster is needed.
"""

from vscheduler.testing.decisions import Decisions, decide
from vscheduler.testing.statements import ImpossibleError

__all__ = ["Decisions", "ImpossibleError", "decide"]

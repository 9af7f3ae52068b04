"""Which pods are evicted for whom: preemptors, victims, the planner, reprieves, nominations."""

"""Preemption and reclaim: preemptors, victims, the planner, reprieves and nominations."""

"""Checks of `vscheduler check`: schemas, and pitfalls of configurations, queues and PodGroups.

Rules are checked by the code that enforces them: CRDs, the policy parser, the Mirror, the Queue
controller, a cycle. This package adds pitfalls: settings that are valid everywhere but rarely
intended.
"""

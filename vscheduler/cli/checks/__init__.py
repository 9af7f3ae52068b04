"""What `vscheduler check` knows: schemas, traps of configurations, queues and PodGroups.

Rules stand where they are enforced (CRDs, the policy parser, the Mirror, the Queue controller, a
cycle) and are asked there; here is only what none of them calls wrong and people regret.
"""

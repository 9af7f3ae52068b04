"""Controllers for Queues and automatic PodGroups; the only user of `kopf`.

Decisions are pure (auto_groups, deletion, queue_reconcile). Code that carries decisions out reaches
the API server only through `ports`.
"""

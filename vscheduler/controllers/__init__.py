"""What keeps Queues and automatic PodGroups in order; the only user of `kopf`.

Decisions are pure (auto_groups, deletion, queues); whoever carries them out reaches the API server
through the ports only.
"""

"""PodGroups for pods that have none: creation, update, garbage collection."""

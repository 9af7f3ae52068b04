"""Automatic PodGroups for pods without a PodGroup: creation, update, garbage collection."""

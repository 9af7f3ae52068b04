"""Indexes over the Mirror's objects: jobs, node usage, pods by class, pod affinity."""

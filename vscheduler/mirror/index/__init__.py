"""Indexes over what the Mirror keeps: jobs, node usage, pods by class, pod affinity."""

"""Decides. Pure: no await, no clock, no logger, no randomness, no Kubernetes type."""

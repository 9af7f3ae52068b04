"""A second scheduler for Kubernetes: gangs, queues and fair shares, with reasons."""

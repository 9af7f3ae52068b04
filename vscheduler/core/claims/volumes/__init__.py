"""Volumes: which nodes a pod's claims allow, and which volumes its claims get."""

"""Verbs: how a cycle runs. Knows no policy; read contracts.py first."""

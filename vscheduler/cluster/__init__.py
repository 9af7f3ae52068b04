"""Talking to the API server: the only user of `kubernetes`."""

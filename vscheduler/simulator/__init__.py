"""Simulation: the daemon's Mirror and core on manifests, in virtual time."""

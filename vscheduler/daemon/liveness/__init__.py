"""Liveness: progress checks, the watchdog, and signals that end the process."""

"""Writes to the API server: work queue, binder, evictor, status and event writers."""

"""Metrics, share gauges, logs."""

"""`vscheduler replay`."""

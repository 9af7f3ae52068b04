"""`vscheduler job`: list, get, why."""

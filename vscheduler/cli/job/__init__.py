"""`vscheduler job`: list, get, why, history."""

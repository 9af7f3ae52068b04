"""`vscheduler convert`: objects of Kueue as ours. kueue.py is pure."""

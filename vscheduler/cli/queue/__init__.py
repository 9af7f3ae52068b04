"""`vscheduler queue`: list, get, tree, open, close."""

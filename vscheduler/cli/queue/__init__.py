"""`vscheduler queue`: list, get, tree, create, set, delete, open, close."""

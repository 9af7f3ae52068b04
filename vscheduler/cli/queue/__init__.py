"""`vscheduler queue`: list, get, tree, create, delete, open, close."""

"""The solver: a gang as plain data in, nodes or a proof out."""

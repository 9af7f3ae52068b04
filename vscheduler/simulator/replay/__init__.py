"""The laboratory: traces of jobs through the core, in virtual time."""

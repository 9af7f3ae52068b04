"""The working copy of a cycle: session, job state, statement, dispatch of hooks, ordering."""

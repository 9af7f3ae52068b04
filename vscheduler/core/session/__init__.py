"""A cycle's working copy: session, job state, statement, dispatch of hooks, ordering."""

"""History of jobs: what ran when, for whom, and with which resources, in a small database."""

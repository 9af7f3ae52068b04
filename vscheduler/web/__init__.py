"""The page for people: queues, waiting jobs and decisions in a browser, read only."""

"""The whole daemon in a simulated world, by seed; docs/testing.md explains what is promised."""

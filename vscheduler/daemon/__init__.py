"""The daemon process: wiring, scheduling loop, leader election, observability."""

"""Claims: what pods need besides a node before they start. Two kinds: volumes and devices."""

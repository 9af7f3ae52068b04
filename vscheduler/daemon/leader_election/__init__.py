"""Leader election on Leases, in a thread of its own."""

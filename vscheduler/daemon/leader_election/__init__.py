"""Leader election on Leases, in a separate thread."""

"""Choice of nodes: plans per pod class, lookahead, feasibility, pod affinity and spread."""

"""Which node: plans per pod class, lookahead, whole gangs, pod affinity and spread."""

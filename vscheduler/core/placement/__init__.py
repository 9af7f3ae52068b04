"""Choice of nodes: plans per pod class, lookahead, feasibility of gangs, pod affinity and
spread.
"""

"""Network topology: the domains of the network, and who has to be near to whom."""

"""InterPodAffinity and PodTopologySpread: counts per topology domain, and filters."""

"""InterPodAffinity and PodTopologySpread: counts of pods per topology domain, and filters."""

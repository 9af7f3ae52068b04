"""What each queue deserves: node pools, demands, maximum flow, constrained max-min fairness."""

"""What each queue deserves: node pools, demands, max flow, constrained max-min fairness."""

"""Fair shares of queues: node pools, demands, maximum flow, constrained max-min fairness."""

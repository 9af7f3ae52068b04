"""What would start a job that waits: the simulator on changed clusters, each answer verified."""

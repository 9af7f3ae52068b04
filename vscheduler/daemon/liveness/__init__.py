"""Whether work goes on: progress, the watchdog, and signals that end the process."""

"""One process: wiring, pacing, observation."""

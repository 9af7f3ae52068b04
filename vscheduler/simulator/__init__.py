"""The same mirror and the same core on manifests, in virtual time."""

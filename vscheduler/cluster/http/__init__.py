"""HTTP to the API server: credentials, connections, errors, single objects."""

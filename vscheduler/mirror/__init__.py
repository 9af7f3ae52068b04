"""Kubernetes objects without API calls: decoding, translation, the Mirror and wording."""

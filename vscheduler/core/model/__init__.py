"""Nouns: the cluster at one instant, as frozen values."""

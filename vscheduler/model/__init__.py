"""Data model: the cluster at one point in time, as frozen values."""

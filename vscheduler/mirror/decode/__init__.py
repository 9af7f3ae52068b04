"""Decoding of JSON and YAML into the wire form of Kubernetes objects."""

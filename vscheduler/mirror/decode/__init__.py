"""JSON and YAML into plain values: what Kubernetes objects look like on the wire."""

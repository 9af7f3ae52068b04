"""Kubernetes objects without Kubernetes calls: decode, translate, keep."""

"""Promises of kube-apiserver, each checked on it and on the API server in memory."""

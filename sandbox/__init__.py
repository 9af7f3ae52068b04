"""A disposable, real Kubernetes control plane on this machine, without containers.

etcd, kube-apiserver, kube-controller-manager and kwok (simulated kubelets) run as plain processes
on loopback. Used by the demo, the integration tests and the benchmark; start with
`control_plane.start()`.
"""

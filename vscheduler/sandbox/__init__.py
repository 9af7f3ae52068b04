"""A throw-away real Kubernetes control plane on this machine, without containers.

etcd, kube-apiserver, kube-controller-manager and kwok (kubelets that only pretend) run as plain
processes on loopback. The demo, the integration tests and the benchmark share it:
`control_plane.start()` is the door.
"""

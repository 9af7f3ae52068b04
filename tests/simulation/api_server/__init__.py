"""An API server in memory that behaves as kube-apiserver does for what the daemon, Kopf and the
actors use.

`server.ApiServer.ask` answers one request at once; `http.HttpServer` speaks HTTP/1.1 bytes in front
of it, and `client.Client` is for actors and tests. Nothing here knows real time, threads or
sockets: the moment is a callable, and chance comes in as a `random.Random`.

Layers: server > http, client | writes > pods, patches, apply, schemas > watching > store > kinds,
selectors, wire. The contract suite in tests/simulation/contract checks every promise here and on a
real kube-apiserver.
"""

# What `kubectl apply -k manifests` runs: docker build -t registry.example.com/vscheduler:0.1.0 .
# Everything is installed from the lock files with hashes, as `make` does. The last stage has an
# interpreter and one folder that belongs to root. It needs no shell, no home directory and no writable file.
# The digest of the index for all platforms determines the base image; the tag is its name on
# 2026-09-19 (Python 3.11.16). After a fix of the base image, replace the digest by hand with the output of:
# docker buildx imagetools inspect docker.io/library/python:3.11-slim-bookworm --format '{{.Manifest.Digest}}'
ARG PYTHON=docker.io/library/python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

FROM ${PYTHON} AS wheel
WORKDIR /source
COPY requirements-dev.lock ./
RUN python -m pip install --no-cache-dir --require-hashes --requirement requirements-dev.lock
COPY LICENSE README.md pyproject.toml ./
COPY crds crds/
COPY vscheduler vscheduler/
RUN python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .

FROM ${PYTHON} AS install
COPY requirements.lock /wheels/
# Compiled once; Python doesn't compare the bytecode with the sources when it starts.
RUN python -m venv --without-pip /opt/vscheduler \
    && python -m pip --python /opt/vscheduler install --no-cache-dir --no-compile \
    --only-binary :all: --require-hashes --requirement /wheels/requirements.lock \
    && /opt/vscheduler/bin/python -m compileall -q --invalidation-mode unchecked-hash \
    /opt/vscheduler/lib
COPY --from=wheel /wheels/*.whl /wheels/
RUN python -m pip --python /opt/vscheduler install --no-cache-dir --no-compile \
    --no-deps --no-index --find-links /wheels vscheduler \
    && /opt/vscheduler/bin/python -m compileall -q --invalidation-mode unchecked-hash \
    /opt/vscheduler/lib/python*/site-packages/vscheduler

FROM ${PYTHON}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="vscheduler" \
      org.opencontainers.image.description="A second scheduler for Kubernetes: gangs, queues and fair shares, with reasons." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=install /opt/vscheduler /opt/vscheduler
ENV PYTHONDONTWRITEBYTECODE=1
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/opt/vscheduler/bin/vscheduler"]
CMD ["--help"]

# One image for all parts. Pin the base by digest:
#   docker build --build-arg PYTHON_IMAGE=python:3.13-slim-bookworm@sha256:<digest> -t leadsman:0.1.0 .
ARG PYTHON_IMAGE=python:3.13-slim-bookworm

FROM ${PYTHON_IMAGE} AS builder
WORKDIR /src
COPY setup.cfg pyproject.toml README.md LICENSE ./
COPY agent/ agent/
COPY controller/ controller/
COPY extender/ extender/
COPY leadsman/ leadsman/
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .
RUN python -m venv --without-pip /opt/leadsman
RUN pip --python /opt/leadsman/bin/python install --no-cache-dir /wheels/*.whl

FROM ${PYTHON_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=""
LABEL org.opencontainers.image.title="leadsman" \
      org.opencontainers.image.description="Per-node agents that measure what kube-scheduler cannot see, and a scheduler extender" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=builder /opt/leadsman /opt/leadsman
ENV PATH=/opt/leadsman/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
ENTRYPOINT ["leadsman"]
CMD ["--help"]

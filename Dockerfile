# The image of all parts, and with `--target agent` the agent's own, without what an agent never imports:
#   docker build -t leadsman:0.2.0 . && docker build --target agent -t leadsman-agent:0.2.0 .
# Pin the base by digest with --build-arg PYTHON_IMAGE=python:3.13-slim-bookworm@sha256:<digest>. The same commit then gives
# the same files.
ARG PYTHON_IMAGE=python:3.13-slim-bookworm

FROM ${PYTHON_IMAGE} AS wheel
# The moment that archives name, in seconds since 1970; 1980 is the oldest that a wheel can.
ARG SOURCE_DATE_EPOCH=315532800
WORKDIR /src
COPY image/ image/
RUN python -m venv --without-pip /opt/build
RUN pip --python /opt/build/bin/python install --no-cache-dir --require-hashes -r image/build.txt
COPY setup.cfg pyproject.toml README.md LICENSE ./
COPY agent/ agent/
COPY controller/ controller/
COPY extender/ extender/
COPY leadsman/ leadsman/
RUN pip --python /opt/build/bin/python wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .

FROM wheel AS agent-packages
RUN python -m venv --without-pip /opt/leadsman
RUN pip --python /opt/leadsman/bin/python install --no-cache-dir --no-compile --require-hashes -r image/agent.txt
RUN pip --python /opt/leadsman/bin/python install --no-cache-dir --no-compile --no-deps /wheels/*.whl
RUN python image/trim_agent.py /opt/leadsman
RUN /opt/leadsman/bin/python -B -OO -X pycache_prefix=/opt/leadsman/bytecode image/compile_bytecode.py agent

FROM wheel AS packages
RUN python -m venv --without-pip /opt/leadsman
RUN pip --python /opt/leadsman/bin/python install --no-cache-dir --no-compile --no-deps --require-hashes -r image/leadsman.txt
RUN pip --python /opt/leadsman/bin/python install --no-cache-dir --no-compile --no-deps /wheels/*.whl
RUN /opt/leadsman/bin/python -B -X pycache_prefix=/opt/leadsman/bytecode image/compile_bytecode.py agent extender controller

FROM ${PYTHON_IMAGE} AS runtime
ARG VERSION=0.2.0
ARG REVISION=""
ARG CREATED=""
ARG SOURCE=""
LABEL org.opencontainers.image.title="leadsman" \
      org.opencontainers.image.description="Per-node agents that measure what kube-scheduler cannot see, and a scheduler extender" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}"
ENV PATH=/opt/leadsman/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPYCACHEPREFIX=/opt/leadsman/bytecode \
    PYTHONUNBUFFERED=1
USER 10001:10001
ENTRYPOINT ["leadsman"]
CMD ["--help"]

FROM runtime AS agent
LABEL org.opencontainers.image.title="leadsman-agent" \
      org.opencontainers.image.description="Leadsman's agent: measures what kube-scheduler cannot see of its node"
# Without docstrings: 1.6 MB of each node's memory. malloc gives free memory back from 64 KiB on: by its own rule it keeps the
# more, the larger the blocks were that it once had.
ENV PYTHONOPTIMIZE=2 \
    MALLOC_TRIM_THRESHOLD_=65536
COPY --from=agent-packages /opt/leadsman /opt/leadsman

FROM runtime
# A large block goes back at once, also below later ones: four bodies of 50 MB at a time left 100 MiB of gaps in an extender.
# The heap's end is kept up to 16 MiB: trimmed from 128 KiB on, malloc's rule where a limit is named, full nodes cost 1.7 times the CPU.
ENV MALLOC_ARENA_MAX=2 \
    MALLOC_TRIM_THRESHOLD_=16777216 \
    MALLOC_MMAP_THRESHOLD_=524288
COPY --from=packages /opt/leadsman /opt/leadsman

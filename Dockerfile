# Two stages: the first builds wheels, the second holds nothing but Python and the program.
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml setup.cfg README.md LICENSE ./
COPY embyproc ./embyproc
COPY migrations ./migrations
RUN pip wheel --no-cache-dir --wheel-dir /wheels .

FROM python:3.13-slim
# Give the ids that own your shares: --build-arg UID=1026 --build-arg GID=100, or `user:` in
# docker-compose.yml.
ARG UID=1000
ARG GID=1000
# Only the wheels of the first stage are there to choose from: there is nothing to pin.
# hadolint ignore=DL3013
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links=/wheels embyproc
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /config
VOLUME ["/watch", "/destination"]
USER ${UID}:${GID}
# Healthy = a stage ended well within the last ten minutes; the task scheduler starts them.
HEALTHCHECK --interval=5m --timeout=30s --start-period=10m \
    CMD ["embyproc", "status", "--max-age", "600"]
# One idle container; the scheduler runs `docker exec` in it. The schema is brought up to date
# whenever a new image starts. `init: true` in docker-compose.yml ends `sleep` at once.
CMD ["sh", "-c", "until embyproc migrate; do sleep 5; done; exec sleep infinity"]

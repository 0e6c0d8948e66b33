# Everything that `snakemake --cores N report` needs, built from the locks. `make image` builds it; it needs BuildKit.
# There is no `# syntax=` line: it would be fetched from a registry.
ARG BASE=debian:bookworm-slim


# The Debian packages. Inductor compiles while it runs, so the compiler is needed to the end.
FROM $BASE AS system
RUN --mount=type=bind,source=envs/apt.txt,target=/tmp/apt.txt \
    apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        tini $(grep -v '^#' /tmp/apt.txt) \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log


# The two environments. What belongs to the builder's site (a private CA, an index, wheels) is mounted, never copied.
FROM system AS environments
WORKDIR /lab
COPY envs/driver.lock envs/
RUN --mount=type=secret,id=ca --mount=type=secret,id=pip \
    --mount=type=bind,source=envs/container/with-site.sh,target=/tmp/with-site.sh \
    --mount=type=bind,source=envs/container/wheels,target=/tmp/wheels \
    --mount=type=cache,target=/root/.cache/pip \
    python3 -m venv .venv \
    && sh /tmp/with-site.sh .venv/bin/pip install -q --require-hashes --no-deps -r envs/driver.lock

# Only what `cpulab build` imports: other code may change without torch being installed again.
COPY envs/cpu.lock envs/cpu-default-index.lock envs/
COPY workflow/lib/cpulab/__init__.py workflow/lib/cpulab/__main__.py workflow/lib/cpulab/errors.py \
    workflow/lib/cpulab/files.py workflow/lib/cpulab/paths.py workflow/lib/cpulab/progress.py workflow/lib/cpulab/
COPY workflow/lib/cpulab/host/__init__.py workflow/lib/cpulab/host/build.py workflow/lib/cpulab/host/
RUN --mount=type=secret,id=ca --mount=type=secret,id=pip \
    --mount=type=bind,source=envs/container/with-site.sh,target=/tmp/with-site.sh \
    --mount=type=bind,source=envs/container/wheels,target=/tmp/wheels \
    --mount=type=cache,target=/root/.cache/pip \
    export PYTHONPATH=workflow/lib PYTHONDONTWRITEBYTECODE=1 \
    && { sh /tmp/with-site.sh .venv/bin/python -m cpulab build || { cat results/logs/build.log >&2; exit 1; }; }


FROM system
LABEL org.opencontainers.image.title="Inductor CPU Lab" \
    org.opencontainers.image.description="Runs the experiments of the PyTorch tutorial on the Inductor CPU backend and judges its findings on this machine" \
    org.opencontainers.image.licenses="BSD-3-Clause"
WORKDIR /lab
COPY --from=environments /lab/.venv-cpu .venv-cpu
COPY --from=environments /lab/.venv .venv
RUN useradd --uid 1000 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin lab
COPY Snakefile pyproject.toml README.md LICENSE CITATION.cff ./
COPY config config
COPY profiles profiles
COPY report report
# The files alone: wheels/ stays out.
COPY envs/*.* envs/
COPY envs/container/*.sh envs/container/
COPY workflow workflow
# Snakemake's notes on what it has done are kept with the results, so that another container goes on from them.
# Anybody may write into results/: without a volume, and with --user, it is the folder that is used.
RUN .venv/bin/pip install -q --no-deps --no-build-isolation --no-index --no-cache-dir --editable . \
    && .venv/bin/python -m compileall -q workflow/lib \
    && chmod -R a+rX,go-w config envs profiles report workflow ./*.* Snakefile LICENSE \
    && mkdir -m 1777 results && chown lab results && ln -s results/.snakemake .snakemake

# Home is a folder that any user may write, also where the rest is read-only. Some libraries ask for a user's name.
ENV PATH=/lab/.venv/bin:/usr/local/bin:/usr/bin:/bin HOME=/tmp USER=lab LANG=C.UTF-8
ARG REVISION=
ARG SOURCE=
RUN python -m cpulab.host.image "$REVISION"
LABEL org.opencontainers.image.revision="$REVISION" org.opencontainers.image.source="$SOURCE"

# No USER line: a results folder that docker makes for -v is root's, and only root can give it away. The entrypoint does
# that and nothing else as root; what it then runs, tini included, is the owner of the results folder, or `lab`.
STOPSIGNAL SIGINT
ENTRYPOINT ["sh", "/lab/envs/container/entrypoint.sh"]
CMD ["report"]

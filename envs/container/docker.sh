#!/bin/sh
# Sourced by its neighbours: sets `docker` to a client that can build with BuildKit, and says what is missing.

stop() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

# The client of Docker 23 and later builds with BuildKit only where its plug-in buildx is installed; older ones have it
# built in, and a machine may have both. Asking for the help of `build` tells.
find_docker() {
    export DOCKER_BUILDKIT=1
    for docker in $(command -v -- "${DOCKER:-docker}" || true) $(which -a "${DOCKER:-docker}" 2>/dev/null || true); do
        if "$docker" build --help 2>/dev/null | grep -q -e --secret; then
            return 0
        fi
    done
    return 1
}

daemon_answers() { "$docker" info >/dev/null 2>&1; }

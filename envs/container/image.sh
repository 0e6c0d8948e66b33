#!/bin/sh
# Builds the image cpulab:latest from this checkout, and says its id, its size and what it holds. `make image` runs it.
#   DOCKER              the docker client
#   DOCKER_BUILD_FLAGS  more options of `docker build`; --network=host is added where docker has no network of its own
#   BASE                the base image, for instance debian:bookworm-slim@sha256:...
#   WHEELS              a folder; of the wheels in it, those are used that a lock names by its hash
set -eu
cd "$(dirname "$0")/../.."
. envs/container/docker.sh

find_docker || stop "No docker client that builds with BuildKit was found (tried: ${DOCKER:-docker}). \
Install Docker with its buildx plug-in, or name a client with DOCKER=."
daemon_answers || stop "No docker daemon answers $docker. Start it, or run \`make test-image\` as root, which does."

# Wheels of an earlier build stay out of this one.
find envs/container/wheels -name '*.whl' -delete
wheels=${WHEELS-${PIP_FIND_LINKS-}}
if [ -d "$wheels" ]; then
    for wheel in "$wheels"/*.whl; do
        [ -f "$wheel" ] || continue
        hash=$(sha256sum "$wheel" | cut -d ' ' -f 1)
        if grep -q "sha256:$hash" envs/cpu.lock envs/cpu-default-index.lock envs/driver.lock; then
            ln "$wheel" envs/container/wheels/ 2>/dev/null || cp "$wheel" envs/container/wheels/
        fi
    done
elif [ -n "${WHEELS-}" ]; then
    stop "WHEELS=$wheels is not a folder. Name one that holds wheels, or leave it out."
fi

site=$(mktemp -d)
trap 'rm -rf "$site"; find envs/container/wheels -name "*.whl" -delete' EXIT
trap 'exit 130' INT TERM

# Secrets, not build arguments: an index's address may hold a password, and arguments stay in the image's history.
set --
if [ -n "${PIP_CERT-}" ]; then
    set -- "$@" --secret "id=ca,src=$PIP_CERT"
fi
{
    echo '[global]'
    for name in INDEX_URL EXTRA_INDEX_URL TRUSTED_HOST PROXY DEFAULT_TIMEOUT RETRIES NO_INDEX; do
        value=$(printenv "PIP_$name" || true)
        [ -z "$value" ] || printf '%s = %s\n' "$(echo "${name#DEFAULT_}" | tr A-Z_ a-z-)" "$value"
    done
} >"$site/pip.conf"
set -- "$@" --secret "id=pip,src=$site/pip.conf"
for name in HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy; do
    [ -z "$(printenv "$name" || true)" ] || set -- "$@" --build-arg "$name"
done
"$docker" network inspect bridge >/dev/null 2>&1 || set -- "$@" --network=host

revision=$(git rev-parse HEAD 2>/dev/null || true)
[ -z "$revision" ] || [ -z "$(git status --porcelain)" ] || revision=$revision-dirty

source=$(git remote get-url origin 2>/dev/null | sed -n 's#^https://\([^/]*@\)\{0,1\}#https://#p')

# shellcheck disable=SC2086 # a list of options
"$docker" build "$@" ${BASE:+--build-arg "BASE=$BASE"} --build-arg "REVISION=$revision" --build-arg "SOURCE=$source" ${DOCKER_BUILD_FLAGS-} \
    --tag cpulab:latest .

echo "cpulab:latest $("$docker" image inspect -f '{{.Id}} {{.Size}}' cpulab | awk '{printf "%s, %.2f GB", $1, $2 / 1e9}')"
"$docker" run --rm --network none --entrypoint cat cpulab /lab/image.json

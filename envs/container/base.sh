#!/bin/sh
# Makes debian:bookworm-slim from Debian's own packages, where no registry has it to give. Needs root and mmdebstrap.
set -eu
cd "$(dirname "$0")/../.."
. envs/container/docker.sh
find_docker || stop "No docker client that builds with BuildKit was found. Install docker.io."

# The exclusions are those of the published image.
mmdebstrap --quiet --variant=minbase --include=usr-is-merged --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    bookworm - | "$docker" import - debian:bookworm-slim >/dev/null

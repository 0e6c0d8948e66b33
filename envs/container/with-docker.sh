#!/bin/sh
# Runs a command where docker works. As root on Debian, what is missing for that is installed and started; a daemon that
# was started here ends with the command.
set -eu
cd "$(dirname "$0")/../.."
. envs/container/docker.sh
base=debian:bookworm-slim

install() {
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        stop "$2 and this user cannot install $1. Install it, or run this as root on Debian."
    fi
    echo "installing $1" >&2
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null ||
        stop "$2 and apt-get could not install $1. See what it says above."
}

answers_within() {
    for _ in $(seq "$1"); do
        daemon_answers && return 0
        sleep 1
    done
    return 1
}

find_docker || install docker.io "No docker client here builds with BuildKit,"
find_docker || stop "This docker.io cannot build with BuildKit. Install docker's buildx plug-in."
if ! daemon_answers; then
    command -v dockerd >/dev/null || install docker.io "No docker daemon answers,"
fi
if ! answers_within 3; then
    [ "$(id -u)" -eq 0 ] || stop "No docker daemon answers, and only root can start one. Start it, or run this as root."
    state=$(mktemp -d)
    # Without a bridge and without rules of its own: it works inside a container too, and changes nothing of the network.
    dockerd --iptables=false --ip-forward=false --bridge=none --pidfile "$state/pid" >"$state/log" 2>&1 &
    daemon=$!
    # shellcheck disable=SC2064 # the values of now
    trap "kill $daemon; wait $daemon || true; rm -rf '$state'" EXIT
    trap 'exit 130' INT TERM
    answers_within 60 || stop "The docker daemon does not start: $(tail -n 1 "$state/log"). Start it yourself and try again."
fi

if ! "$docker" image inspect "$base" >/dev/null 2>&1 && ! timeout 120 "$docker" pull --quiet "$base" >/dev/null 2>&1; then
    command -v mmdebstrap >/dev/null || install mmdebstrap "No registry gives $base,"
    [ "$(id -u)" -eq 0 ] || stop "No registry gives $base, and only root can make it with mmdebstrap. \
Load it with \`docker load\`, or run this as root."
    echo "making $base with mmdebstrap" >&2
    DOCKER=$docker sh envs/container/base.sh
fi

DOCKER=$docker "$@"

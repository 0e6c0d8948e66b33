#!/bin/sh
# Settles as whom a container runs, then becomes Snakemake with the arguments given, or `cpulab ...` where they say so.
set -eu
results=/lab/results

stop() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

# Where uid 0 is not the host's root (rootless docker, podman), it is the caller, whose files are to stay the caller's.
read -r _ outside _ </proc/self/uid_map
if [ "$(id -u)" -eq 0 ] && [ "$outside" -eq 0 ]; then
    user=$(stat -c %u "$results") group=$(stat -c %g "$results")
    if [ "$user" -eq 0 ]; then
        user=$(id -u lab) group=$(id -g lab)
        # Docker has just made it for -v. One that holds something is somebody's.
        [ -n "$(ls -A "$results")" ] || chown "$user:$group" "$results" 2>/dev/null || true
    fi
    setpriv --reuid "$user" --regid "$group" --clear-groups true 2>/dev/null ||
        stop "This container runs as root and may not become another user. Start it with --user \$(id -u):\$(id -g)."
    exec setpriv --reuid "$user" --regid "$group" --clear-groups sh "$0" "$@"
fi

# A diagnosis keeps nothing.
if [ "${1-} ${2-}" != "cpulab doctor" ]; then
    [ -w "$results" ] ||
        stop "The results folder belongs to user $(stat -c %u "$results") and user $(id -u) cannot write into it. \
Give it to user $(id -u) (chown -R $(id -u) FOLDER), or start the container with --user and one who can."
    mountpoint -q "$results" ||
        echo "note: no folder is mounted at $results (-v \"\$PWD/results:$results\"): results go with the container" >&2
    mkdir -p "$results/.snakemake"
fi
[ "${1-}" = cpulab ] || set -- snakemake "$@"
# Passes Ctrl-C and docker's stop on to Snakemake and the steps it runs, and sees off what they leave behind.
exec tini -s -g -- "$@"

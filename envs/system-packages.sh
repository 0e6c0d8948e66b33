#!/bin/sh
# Installs the Debian packages of a list that are missing, where this user may; says which they are elsewhere.
# It never fails: what is really needed and not there is said by the rule `environment`, which looks for the thing itself.
set -eu
missing=""
for package in $(grep -v '^#' "$1"); do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "note: not a Debian system; what it calls these packages may be needed:$missing" >&2
elif [ "$(id -u)" -ne 0 ]; then
    echo "note: these packages are not installed; if something is missing: sudo apt-get install$missing" >&2
else
    echo "installing system packages:$missing" >&2
    # shellcheck disable=SC2086 - a list of words
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } \
        >/dev/null || echo "note: apt-get could not install:$missing" >&2
fi

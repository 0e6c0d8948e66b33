#!/bin/sh
# Installs the Debian packages of a list that are missing, where this user may; says which they are elsewhere.
set -eu
missing=""
for package in $(grep -v '^#' "$1"); do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "note: not a Debian system, so these packages were not checked:$missing. Have their like installed." >&2
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "error: these packages are missing:$missing. Install them: sudo apt-get install$missing" >&2
    exit 1
fi
echo "installing system packages:$missing" >&2
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null

#!/bin/sh
# Runs a command while the image is built, with the builder's own CA, pip configuration and wheels, where there are any.
set -eu
[ ! -f /run/secrets/ca ] || export PIP_CERT=/run/secrets/ca
[ ! -f /run/secrets/pip ] || export PIP_CONFIG_FILE=/run/secrets/pip
export PIP_FIND_LINKS=/tmp/wheels PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
exec "$@"

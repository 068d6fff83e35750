#!/bin/sh
# Installs the servers that the tests run against, where that is possible: as root, with apt-get.
# None of Debian's own services is started; the tests start theirs on private ports.
set -eu

# Debian keeps programs that filter and route where only root looks.
PATH="$PATH:/usr/sbin:/sbin"
missing=""
command -v redis-server > /dev/null || missing="$missing redis-server"
test -x /usr/lib/rabbitmq/bin/rabbitmq-server || missing="$missing rabbitmq-server"
ls /usr/lib/postgresql/*/bin/postgres > /dev/null 2>&1 || missing="$missing postgresql"
command -v nft > /dev/null || missing="$missing nftables"
command -v ip > /dev/null || missing="$missing iproute2"
command -v haproxy > /dev/null || missing="$missing haproxy"
command -v chromium > /dev/null || missing="$missing chromium"

if [ -z "$missing" ]; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get > /dev/null; then
    echo "Not installed:$missing. The tests that need them will say so and skip;"
    echo "to run them: sudo apt-get install$missing"
    exit 0
fi
echo "Installing the servers that the tests run against:$missing"
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
log=$(mktemp)
if apt-get update -qq > "$log" 2>&1 && apt-get install -y -qq --no-install-recommends $missing >> "$log" 2>&1; then
    rm "$log"
    exit 0
fi
tail -n 20 "$log"
echo "apt-get could not install$missing; its whole output is in $log"
# Where CI is set a missing server is a failure, and the reason is best told here.
[ "${CI:-}" != "true" ]

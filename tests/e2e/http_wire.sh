#!/usr/bin/env bash
# HTTP byte by byte, by varnishtest: pipelines, chunks, what breaks the protocol, and attempts to hide
# one request in another.
set -uo pipefail
# shellcheck source=tests/e2e/lib_http.sh
. "$(dirname "$0")/lib_http.sh"
need varnishtest

scripts=$GOBLIN_SOURCE/tests/e2e/http
serve
for script in "$scripts"/*.vtc; do
    checks=$((checks + 1))
    varnishtest -t 60 -D addr="${http%:*}" -D port="${http##*:}" "$script" >vtc.log 2>&1 ||
        fail "$(basename "$script"): $(grep -E '^----' vtc.log | head -5)"
done
# It can fail.
printf 'varnishtest "none"\nclient c1 -connect "%s %s" {\n\ttxreq\n\trxresp\n\texpect resp.status == 299\n} -run\n' \
    "${http%:*}" "${http##*:}" >bad.vtc
varnishtest bad.vtc >/dev/null 2>&1 && fail 'varnishtest sees nothing wrong'
finish

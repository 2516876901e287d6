#!/usr/bin/env bash
# The status page: served to everybody, complete in itself, and drawn by a browser.
set -uo pipefail
# shellcheck source=tests/e2e/lib_http.sh
. "$(dirname "$0")/lib_http.sh"
need curl

serve
url=http://$http
expect 200 "$url/status"
has Content-Type 'text/html; charset=utf-8'
[[ $(field Content-Security-Policy) == "default-src 'none';"* ]] || fail 'it may load anything'
checks=$((checks + 1))
grep -oE '(src|href|url\()[=("'"'"' ]*[a-z]+:[^ ]*|@import' body && fail 'it loads something from elsewhere'
expect 200 -I "$url/status"
expect 405 -X PUT -d x "$url/status"
has Allow 'GET, HEAD, OPTIONS'

browser=$(command -v chromium || true)
if [ -z "$browser" ]; then
    echo 'left out: the page in a browser; chromium is not installed'
    finish
    exit
fi

browse() { # address: the page as it stands when some seconds have passed, in dom
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --no-first-run \
        --disable-background-networking --disable-component-update --disable-sync \
        --user-data-dir="$work/profile" --virtual-time-budget=9000 --dump-dom "$1" \
        >dom 2>browser.log || fail "the browser ended with $?: $(tail -n 3 browser.log)"
}

shows() { # extended regular expression
    checks=$((checks + 1))
    grep -qE -- "$1" dom || fail "the page has no '$1': $(head -c 3000 dom | tail -c 1500)"
}

head -c 100000 /dev/urandom >some
for key in one two three; do
    expect 201 -T some "$url/$key"
    expect 200 "$url/$key"
done
browse "$url/status"
shows '3 objects'
shows 'of 256 MiB of disk'
for chart in rate tiers times memory; do
    shows "aria-label=\"$chart\""
done
shows '<path d="M[0-9.]+ [0-9.]+L'
shows 'gets [0-9.]+'
shows '(ram|disk) [0-9.]+ %'
shows 'network [0-9.]+ (B|KiB|MiB)'

# Where metrics want a token the page says so, and asks for one.
printf 'write a-token-of-sufficient-length\n' >tokens
serve --http-tokens tokens
expect 401 "http://$http/metrics"
expect 200 "http://$http/status"
browse "http://$http/status"
shows 'the server answers 401'
shows '<form id="entry">'
finish

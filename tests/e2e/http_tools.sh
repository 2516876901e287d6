#!/usr/bin/env bash
# Others' tools against HTTP: litmus (what of its tests is about HTTP and not about collections), wrk,
# h2load and ab (nothing fails, and every byte comes), sslscan (nothing old is spoken), and by hand,
# with CLIENTS_ALL=yes (make clients), slowhttptest and longer runs.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/e2e/lib_http.sh
. "$here/lib_http.sh"
need curl
need openssl
helper=
trap 'end_server; [ -z "$helper" ] || kill "$helper" 2>/dev/null; rm -rf "$work"' EXIT
all=${CLIENTS_ALL:-}
ran=0

has_tool() { # tool
    if command -v "$1" >/dev/null; then
        ran=$((ran + 1))
        checks=$((checks + 1))
        return 0
    fi
    if [ "$all" = yes ]; then
        fail "$1 is not installed"
    else
        echo "left out: $1, which is not installed"
    fi
    return 1
}
number() { # pattern with a group, file
    sed -nE "s/$1/\1/p" "$2" | head -n 1
}

openssl req -x509 -newkey rsa:2048 -nodes -days 30 -keyout key.pem -out cert.pem \
    -subj /CN=one.example -addext subjectAltName=DNS:one.example 2>/dev/null
serve --https 127.0.0.1:0 --certificate cert.pem:key.pem --request-timeout 3s
requests=400 seconds=1
[ "$all" != yes ] || requests=50000 seconds=30
size=100003
head -c "$size" /dev/urandom >file
expect 201 -T file "http://$http/file"

# ---- litmus --------------------------------------------------------------------------------------
if [ -x /usr/bin/python3 ] && has_tool litmus; then
    /usr/bin/python3 "$here/http/mkcol.py" "$http" between &
    helper=$!
    for _ in $(seq 400); do
        [ -s between ] && break
        sleep 0.05
    done
    TESTS='basic http' timeout 60 litmus -k "http://127.0.0.1:$(cat between)/" 2>&1 |
        tr '\r' '\n' >litmus.log
    for test in put_get put_get_utf8_segment delete delete_null expect100; do
        grep -qE "^ *[0-9]+\. $test\.* pass" litmus.log ||
            fail "litmus: $(grep -F ". $test." litmus.log | tail -n 1)"
    done
fi

# ---- load, every byte of it counted --------------------------------------------------------------
if has_tool wrk; then
    cat >count.lua <<LUA
bad = 0
function setup(thread) it = thread end
function response(status, headers, body)
    if status ~= 200 or #body ~= $size then bad = bad + 1 end
end
function done(summary) print("bad " .. it:get("bad") .. " of " .. summary.requests) end
LUA
    timeout 120 wrk -t1 -c8 "-d${seconds}s" -s count.lua "http://$http/file" >wrk.log 2>&1
    grep -qE '^bad 0 of [1-9]' wrk.log && ! grep -qE 'Socket errors|Non-2xx' wrk.log ||
        fail "wrk: $(cat wrk.log)"
fi
if has_tool h2load; then
    timeout 120 h2load --h1 -n "$requests" -c 8 -t 1 "http://$http/file" >h2load.log 2>&1
    grep -q " $requests succeeded, 0 failed, 0 errored, 0 timeout" h2load.log &&
        grep -q "^status codes: $requests 2xx" h2load.log &&
        grep -q "($((requests * size))) data" h2load.log || fail "h2load: $(tail -n 12 h2load.log)"
    timeout 120 h2load --h1 -n "$requests" -c 4 -t 1 "https://$https/file" >h2load.log 2>&1
    grep -q " $requests succeeded, 0 failed, 0 errored, 0 timeout" h2load.log &&
        grep -q "($((requests * size))) data" h2load.log ||
        fail "h2load over TLS: $(tail -n 12 h2load.log)"
fi
if has_tool ab; then
    for keep in -k ''; do
        # shellcheck disable=SC2086 # an option or none
        timeout 120 ab -q $keep -n "$requests" -c 8 "http://$http/file" >ab.log 2>&1
        [ "$(number '^Complete requests: *([0-9]+)' ab.log)" = "$requests" ] &&
            [ "$(number '^Failed requests: *([0-9]+)' ab.log)" = 0 ] &&
            [ "$(number '^HTML transferred: *([0-9]+) bytes' ab.log)" = $((requests * size)) ] ||
            fail "ab $keep: $(cat ab.log)"
    done
    timeout 120 ab -q -k -n "$requests" -c 8 -u file -T text/plain "http://$http/put" >ab.log 2>&1
    [ "$(number '^Complete requests: *([0-9]+)' ab.log)" = "$requests" ] || fail "ab -u: $(cat ab.log)"
    expect 200 "http://$http/put"
    same body file
fi

# ---- TLS -----------------------------------------------------------------------------------------
if has_tool sslscan; then
    sslscan --no-colour --sni-name=one.example "$https" >scan 2>&1
    enabled=$(sed -n 's/^\(SSLv[23]\|TLSv1\.[0-3]\) *enabled$/\1/p' scan | tr '\n' ' ')
    [ "$enabled" = 'TLSv1.2 TLSv1.3 ' ] || fail "sslscan finds: $enabled"
    grep -E '^(Accepted|Preferred)' scan | grep -vE ' (TLS_|ECDHE-|DHE-).*(GCM|CHACHA20)' &&
        fail 'sslscan finds a cipher without AEAD, or keys that are not new'
    grep -q '^Preferred TLSv1.3' scan || fail "sslscan saw no ciphers: $(cat scan)"
fi

# ---- slow clients --------------------------------------------------------------------------------
if [ "$all" = yes ] && has_tool slowhttptest; then
    # Heads, bodies and readers that take their time, a thousand at once; with memory for as many,
    # or the next would wait to be accepted.
    serve --memory 512M --network-memory 128M --request-timeout 3s
    for kind in -H -B -X; do
        timeout 120 slowhttptest -c 1000 "$kind" -i 5 -r 200 -l 40 -p 3 -u "http://$http/file" \
            >slow.log 2>&1
        sed -i 's/\x1b\[[0-9;]*m//g' slow.log
        grep -qE 'service available: *YES' slow.log && ! grep -qE 'service available: *NO' slow.log ||
            fail "slowhttptest $kind: $(tail -n 30 slow.log)"
    done
    expect 200 "http://$http/file"
    same body file
fi
[ "$ran" -gt 0 ] || { echo 'skipped: none of the tools is installed'; exit 77; }
finish

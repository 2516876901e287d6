#!/usr/bin/env bash
# goblin serve from the outside: where its options come from, what it says, where its store is, and
# how it ends.
set -uo pipefail
work=$(mktemp -d "${TMPDIR:-/var/tmp}/goblin-serve-test.XXXXXX")
pid=
cleanup() {
    if [ -n "$pid" ]; then
        kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    fi
    rm -rf "$work"
}
trap cleanup EXIT
cd "$work" || exit 1
failures=0
fail() {
    failures=$((failures + 1))
    echo "FAILED: $*"
}

start() { # options...
    rm -f ports
    "$GOBLIN" serve --port-file ports "$@" >out 2>err &
    pid=$!
    for _ in $(seq 400); do
        [ -s ports ] && return
        sleep 0.05
    done
    fail "serve $* did not start: $(cat err)"
}

stop() {
    kill "$pid"
    wait "$pid" || fail "serve ended with $?: $(cat err)"
    pid=
}

ask() { # what is sent, what must come back
    local got address
    address=$(sed -n 's/^memcache //p' ports | head -n 1)
    exec 3<>"/dev/tcp/${address%:*}/${address##*:}" || { fail "no connection to $address"; return; }
    printf '%b' "$1quit\r\n" >&3
    got=$(tr -d '\r' <&3)
    exec 3>&-
    [ "$got" = "$2" ] || fail "$1 got: $got"
}

refuse() { # exit code, what is said, options...
    local code=$1 wanted=$2 ended=0
    shift 2
    "$GOBLIN" serve "$@" >out 2>err || ended=$?
    [ "$ended" = "$code" ] || fail "serve $* ended with $ended"
    grep -qF -- "$wanted" err || fail "serve $* said: $(cat err)"
}

# With nothing said but where to listen: a store of its own, in the directory that systemd gives.
mkdir cache
CACHE_DIRECTORY=$work/cache GOBLIN_MEMCACHE=127.0.0.1:0,127.0.0.1:0 start
[ "$(grep -c '^memcache 127.0.0.1:' ports)" = 2 ] || fail "the port file has: $(cat ports)"
grep -q "^goblin .*: $work/cache, .* of disk, 256 MiB of memory" out || fail "it said: $(cat out)"
port=$(sed -n '1s/.*://p' ports)
grep -qF "nc 127.0.0.1 $port" out || fail "it does not say how to talk to it: $(cat out)"
ask 'set k 0 0 5\r\nhello\r\n' STORED
stop
ls cache/*.seg >/dev/null || fail 'there is no store in CACHE_DIRECTORY'

# The same store again, with options from a file; the environment and the command line have the
# later words.
cat >serve.ini <<INI
store = $work/nowhere
memory = 64M
quiet = yes
memcache = 127.0.0.1:1
[log]
file = $work/events
format = json
INI
GOBLIN_STORE=$work/cache GOBLIN_MEMCACHE=127.0.0.1:2 start --config serve.ini --log info \
    --memcache 127.0.0.1:0
ask 'get k\r\n' $'VALUE k 0 5\nhello\nEND'
[ ! -s out ] || fail "quiet, it said: $(cat out)"
grep -q '"event":"listening","protocol":"memcache","address":"127.0.0.1:' events ||
    fail "the events are: $(cat events)"
mv events events.1
kill -HUP "$pid"
for _ in $(seq 400); do
    [ -s events ] && break
    sleep 0.05
done
grep -q '"event":"reloaded"' events || fail 'SIGHUP did not open the log anew'
refuse 3 'open in another process' --store "$work/cache" --memcache 127.0.0.1:0 --memory 64M
stop
[ ! -e nowhere ] || fail 'an option of the file that was overridden took effect'

# What is wrong is said before anything is made.
"$GOBLIN" serve --config serve.ini --check-config --store "$work/new" || fail 'check-config'
[ ! -e new ] || fail 'check-config made a store'
printf 'memory = lots\n' >bad.ini
refuse 2 'bad.ini:1: --memory lots: give a size' --config bad.ini --check-config
refuse 2 'put an IPv6 address in [brackets]' --memcache ::1:5 --store new
refuse 2 '--unix-mode 9' --unix-mode 9 --store new
refuse 2 'network budget' --network-memory 64M --memory 64M --store new
refuse 3 'neither empty nor a Goblin store' --store /usr --memcache 127.0.0.1:0
[ ! -e new ] || fail 'a store was made for options that are wrong'

[ "$failures" -eq 0 ]

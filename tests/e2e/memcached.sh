#!/usr/bin/env bash
# goblin memcached: memcached's command line, as its service files and test suites use it.
set -uo pipefail
work=$(mktemp -d "${TMPDIR:-/var/tmp}/goblin-memcached-test.XXXXXX")
pids=()
cleanup() {
    local pid
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    done
    rm -rf "$work"
}
trap cleanup EXIT
cd "$work" || exit 1
mkdir tmp
export TMPDIR=$work/tmp
failures=0
fail() {
    failures=$((failures + 1))
    echo "FAILED: $*"
}
me=(-u "$(id -un)")

await() { # file
    local i
    for i in $(seq 400); do
        [ -s "$1" ] && return
        sleep 0.05
    done
    fail "$1 did not come"
}

start() { # options...: the server's number in $pid, its first port in $port
    rm -f ports
    MEMCACHED_PORT_FILENAME=$work/ports "$GOBLIN" memcached "${me[@]}" "$@" 2>said &
    pid=$!
    pids+=("$pid")
    await ports
    port=$(sed -n '1s/^TCP INET6\{0,1\}: //p' ports)
}

stop() {
    kill "$pid"
    wait "$pid" || fail "the server ended with $?"
}

ask() { # port, what is sent, what must come back
    local got
    exec 3<>"/dev/tcp/127.0.0.1/$1" || { fail "no connection to $1"; return; }
    printf '%b' "$2quit\r\n" >&3
    got=$(tr -d '\r' <&3)
    exec 3>&-
    [ "$got" = "$3" ] || fail "$2 got: $got"
}

# As memcached's tests begin: any port, told by a file; memory, threads, verbosity.
start -l 127.0.0.1 -p -1 -U 0 -m 64 -c 200 -t 2 -R 10 -b 64 -v -o modern,idle_timeout=60
grep -q 'modern has no meaning' said || fail "no warning: $(cat said)"
ask "$port" 'set k 7 0 5\r\nhello\r\nget k\r\n' $'STORED\nVALUE k 7 5\nhello\nEND'
ask "$port" "set big 0 0 1048577\r\n$(head -c 1048577 /dev/zero | tr '\0' x)\r\n" \
    'SERVER_ERROR object too large for cache'
[ "$(find tmp -name 'goblin-memcached-*' | wc -l)" = 1 ] || fail 'there is no scratch store'
stop
[ -z "$(ls tmp)" ] || fail "the scratch store is left: $(ls tmp)"

# ext_path is the store, which outlives its server; -I lets values be larger; -P.
start -l 127.0.0.1:0 -m 32 -I 2m -P "$work/pid" -o "ext_path=$work/store:256M,ext_threads=2"
[ "$(cat pid)" = "$pid" ] || fail "the pid file says $(cat pid), not $pid"
printf 'set k 0 0 1500000\r\n%s\r\nquit\r\n' "$(head -c 1500000 /dev/zero | tr '\0' y)" >large
exec 3<>"/dev/tcp/127.0.0.1/$port"
cat large >&3
[ "$(tr -d '\r' <&3)" = STORED ] || fail 'a value of 1.5 MB was not stored'
exec 3>&-
stop
[ ! -e pid ] || fail 'the pid file is left'
start -l 127.0.0.1:0 -m 32 -I 2m -F -X -W -o "ext_path=$work/store:256M"
ask "$port" 'get k\r\n' "$(printf 'VALUE k 0 1500000\n%s\nEND' "$(head -c 1500000 /dev/zero | tr '\0' y)")"
ask "$port" 'flush_all\r\n' 'CLIENT_ERROR flush_all not allowed'
stop

# Several addresses; a unix socket alone.
start -l 127.0.0.1,::1 -p -1 -m 16
[ "$(grep -c '^TCP INET: ' ports)$(grep -c '^TCP INET6: ' ports)" = 11 ] || fail "$(cat ports)"
stop
"$GOBLIN" memcached "${me[@]}" -s "$work/socket" -a 770 -m 16 &
pid=$!
pids+=("$pid")
for _ in $(seq 400); do
    [ -S socket ] && break
    sleep 0.05
done
[ "$(stat -c %a socket)" = 770 ] || fail "the socket has mode $(stat -c %a socket)"
stop

# -d returns at once and goes on behind.
rm -f ports
MEMCACHED_PORT_FILENAME=$work/ports "$GOBLIN" memcached "${me[@]}" -d -l 127.0.0.1 -p -1 -m 16 \
    -P "$work/pid" || fail "-d ended with $?"
await ports
await pid
ask "$(sed -n 's/^TCP INET: //p' ports)" 'set k 0 0 1\r\nx\r\n' STORED
pid=$(cat pid)
kill "$pid"
for _ in $(seq 400); do
    [ -e pid ] || break
    sleep 0.05
done
[ ! -e pid ] || fail 'the daemon did not end'

# What cannot be served is refused, and -h does not promise it.
refuse() { # what is said, options...
    local wanted=$1
    shift
    "$GOBLIN" memcached "${me[@]}" "$@" 2>said && fail "$* was accepted"
    grep -qF -- "$wanted" said || fail "$*: $(cat said)"
}
refuse 'only ascii' -B binary
refuse 'UDP is not served' -U 11211
refuse 'TLS is not served' -Z
refuse 'binary protocol' -S
refuse 'no such option' -o nonsense
refuse 'no such option' --nonsense
refuse 'needs a value' -p
refuse 'not a value for --max-item-size' -I 12
refuse 'ext_path=DIR:SIZE' -o ext_path=nowhere
refuse 'no operands' operand
"$GOBLIN" memcached -V | grep -q '^memcached 1\.' || fail '-V'
"$GOBLIN" memcached -h >help || fail '-h'
for option in port listen memory-limit max-item-size extended; do
    grep -q -- "--$option" help || fail "-h does not show --$option"
done
for option in enable-ssl enable-sasl slab-growth-factor udp-port; do
    grep -q -- "--$option" help && fail "-h shows --$option"
done

[ "$failures" -eq 0 ]

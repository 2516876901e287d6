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
grep -q "values lie in $work/tmp/goblin-memcached-" said || fail "where is the store: $(cat said)"
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

# A file that memcached left at ext_path stays; the store lies beside it. Several: one per drive.
echo extstore >theirs
start -l 127.0.0.1:0 -m 16 -U 11211 -o "ext_path=$work/theirs:64M,ext_path=$work/second:64M"
grep -q 'UDP is not served' said || fail "no warning: $(cat said)"
ask "$port" 'set k 0 0 1\r\nx\r\n' STORED
stop
[ "$(cat theirs)" = extstore ] || fail 'the file of memcached was touched'
[ -d theirs.goblin ] && [ -d second ] || fail "there are no two drives: $(ls)"

# The test's clock, by which nothing waits for an expiry.
start -l 127.0.0.1:0 -m 16 --test-clock
ask "$port" 'set k 0 100 1\r\nx\r\ndebugtime 99\r\nget k\r\ndebugtime 2\r\nget k\r\n' \
    $'STORED\nOK\nVALUE k 0 1\nx\nEND\nOK\nEND'
stop

# libmemcached's checker and load, of which some end with 0 whatever they found.
if command -v memccapable >/dev/null; then
    start -l 127.0.0.1:0 -m 64
    timeout 120 memccapable -h 127.0.0.1 -p "$port" -a >capable 2>&1
    grep -q '^All tests passed$' capable && ! grep -qi fail capable || fail "$(cat capable)"
    timeout 120 memcaslap -s "127.0.0.1:$port" -T 1 -c 8 -x 5000 -v 0.5 >slap 2>&1
    grep -q '^verify_failed: 0$' slap && grep -q '^cmd_get: [1-9]' slap || fail "$(cat slap)"
    stop
else
    echo "left out: libmemcached's checker and load, which are not installed"
fi

# Without its password a client gets nowhere.
echo me:secret >auth
chmod 644 auth
start -l 127.0.0.1:0 -m 16 -Y "$work/auth"
ask "$port" 'get k\r\n' 'CLIENT_ERROR unauthenticated'
ask "$port" 'set k 0 0 9\r\nme secret\r\nget k\r\n' $'STORED\nEND'
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

# -d returns when it listens, and goes on behind; a pid file that cannot be written is no obstacle.
rm -f ports
MEMCACHED_PORT_FILENAME=$work/ports "$GOBLIN" memcached "${me[@]}" -d -l 127.0.0.1 -p -1 -m 16 \
    -P "$work/pid" 2>said || fail "-d ended with $?"
pid=$(cat pid)
ask "$(sed -n 's/^TCP INET: //p' ports)" 'set k 0 0 1\r\nx\r\n' STORED
kill "$pid"
for _ in $(seq 400); do
    [ -d "/proc/$pid" ] || break
    sleep 0.05
done
[ ! -e pid ] && [ ! -d "/proc/$pid" ] || fail 'the daemon did not end'
"$GOBLIN" memcached "${me[@]}" -d -l 127.0.0.1:0 -m 16 -o "ext_path=/proc/none:64M" 2>said
[ $? = 71 ] || fail 'a daemon without a store was started'
start -l 127.0.0.1:0 -m 16 -P "$work/none/pid"
grep -q 'none/pid: No such file' said || fail "no word about the pid file: $(cat said)"
stop

# As root it is nobody else's process until -u says whose.
if [ "$(id -u)" = 0 ] && id nobody >/dev/null 2>&1; then
    "$GOBLIN" memcached -l 127.0.0.1:0 -m 16 2>said
    [ $? = 64 ] || fail "root without -u: $(cat said)"
    chmod 711 "$work"
    me=(-u nobody)
    mkdir open && chmod 777 open
    rm -f ports
    MEMCACHED_PORT_FILENAME=$work/open/ports "$GOBLIN" memcached "${me[@]}" -l 127.0.0.1:0 -m 16 \
        -k -o "ext_path=$work/nobodys:64M" &
    pid=$!
    pids+=("$pid")
    await open/ports
    [ "$(stat -c %u "/proc/$pid")" = "$(id -u nobody)" ] || fail '-u did not change the user'
    [ "$(stat -c %U nobodys)" = nobody ] || fail 'the store is not the user'"'"'s'
    ask "$(sed -n 's/^TCP INET: //p' open/ports)" 'set k 0 0 1\r\nx\r\n' STORED
    stop
    me=(-u "$(id -un)")
else
    echo 'left out: -u, which only root may use'
fi

# What cannot be served is refused, and -h does not promise it.
refuse() { # the code, what is said, options...
    local code=$1 wanted=$2 got=0
    shift 2
    "$GOBLIN" memcached "${me[@]}" "$@" 2>said || got=$?
    [ "$got" = "$code" ] || fail "$* ended with $got, not $code"
    grep -qF -- "$wanted" said || fail "$*: $(cat said)"
    refused+=("$code $*")
}
refused=()
refuse 64 'only ascii' -B binary
refuse 64 'binary protocol' -S
refuse 1 'only PEM' -o ssl_keyformat=2
refused=() # so far memcached would have served; from here on it refuses too
refuse 64 'only ascii' -B nonsense
refuse 64 'needs -o ssl_chain_cert' -Z
refuse 64 'none: ' -Z -o ssl_chain_cert=none
refuse 64 'needs a TCP port' -Z -p 0 -o ssl_chain_cert=none
refuse 64 'needs -o ssl_ca_cert' -Z -o ssl_chain_cert=none,ssl_verify_mode=2
refuse 1 'a number from 0 to 3' -Z -o ssl_verify_mode=4
refuse 1 'needs a file' -Z -o ssl_chain_cert
refuse 1 'Illegal suboption "nonsense"' -o nonsense
refuse 1 'no such option' --nonsense
refuse 1 'no such option' -q
refuse 1 'needs a value' -p
refuse 64 'not a value for --port' -p 70000
refuse 64 'not a value for --udp-port' -U 70000
refuse 64 'not a value for --max-item-size' -I 12
refuse 1 'not a value for --conn-limit' -c 0
refuse 1 'not a value for --threads' -t 0
refuse 1 'not a value for --max-reqs-per-event' -R 0
refuse 1 'Factor must be' -f 1
refuse 1 'Chunk size must be' -n 0
refuse 1 'ext_path=DIR:SIZE' -o ext_path=nowhere
refuse 1 'in seconds' -o idle_timeout
refuse 1 'authentication file' -Y "$work/none"
refuse 71 '127.0.0.1' -l 127.0.0.1.2.3 -p 11211 -m 16
if command -v memcached >/dev/null; then
    theirs=(-s "$work/theirs.socket")
    for line in "${refused[@]}"; do
        [[ $line == *127.0.0.1* ]] && theirs=()
        got=0
        # shellcheck disable=SC2086 # options, none with a blank
        timeout 20 memcached -u nobody "${theirs[@]}" ${line#* } >said 2>&1 || got=$?
        [ "$got" = "${line%% *}" ] || fail "memcached ${line#* } ends with $got: $(cat said)"
    done
else
    echo 'left out: how memcached, which is not installed, refuses the same'
fi
"$GOBLIN" memcached -V | grep -q '^memcached 1\.' || fail '-V'
"$GOBLIN" memcached -h >help || fail '-h'
for option in port listen memory-limit max-item-size extended test-clock enable-ssl; do
    grep -q -- "--$option" help || fail "-h does not show --$option"
done
for option in enable-sasl slab-growth-factor udp-port; do
    grep -q -- "--$option" help && fail "-h shows --$option"
done

[ "$failures" -eq 0 ]

#!/usr/bin/env bash
# The memcached protocol of goblin serve: transcripts, at several splits and over both kinds of
# sockets; the same transcripts played to a real memcached, so that what they expect is what it
# answers; libmemcached's own checker and load; memcached-tool.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/var/tmp}/goblin-memcache.XXXXXX")
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
[ -x "${GOBLIN:-}" ] || { echo "GOBLIN must name the program" >&2; exit 1; }
[ -x /usr/bin/python3 ] || { echo "skipped: there is no /usr/bin/python3"; exit 77; }
failures=0

fail() {
    failures=$((failures + 1))
    echo "FAILED: $*"
}

play() { # address, who, split, transcript...
    local address=$1 who=$2 split=$3
    shift 3
    /usr/bin/python3 "$here/memcache/play.py" "$address" "$who" "$split" "$@" ||
        fail "transcripts against $who at $address, split $split"
}

await() { # file, what
    local i
    for i in $(seq 400); do
        [ -s "$1" ] && return
        sleep 0.05
    done
    fail "$2 did not start"
    cat ./*.log
    exit 1
}

# ---- goblin --------------------------------------------------------------------------------------
"$GOBLIN" serve --store "$work/store" --store-size 256M --memory 64M --threads 2 --test-clock \
    --max-value 1M --memcache 127.0.0.1:0 --memcache "$work/socket" --port-file "$work/ports" \
    --quiet >goblin.log 2>&1 &
pids+=($!)
await ports goblin
address=$(sed -n 's/^memcache \(127.*\)/\1/p' ports)
port=${address##*:}

transcripts=("$here"/memcache/{text,errors,meta,stale,time}.txt)
for split in 0 -1 1 5; do
    play "$address" goblin "$split" "${transcripts[@]}"
done
play "$work/socket" goblin 3 "${transcripts[@]}"
for split in 0 -1 3000; do
    play "$address" goblin "$split" "$here/memcache/large.txt"
done

# ---- memcached -----------------------------------------------------------------------------------
if command -v memcached >/dev/null; then
    user=()
    if [ "$(id -u)" -eq 0 ]; then
        user=(-u nobody)
        chmod 711 "$work"
    fi
    mkdir theirs && chmod 777 theirs
    memcached "${user[@]}" -s "$work/theirs/socket" -a 0777 -m 64 -t 2 >memcached.log 2>&1 &
    pids+=($!)
    for _ in $(seq 100); do
        [ -S theirs/socket ] && break
        sleep 0.05
    done
    version=$(memcached -V)
    if [[ $version == "memcached 1.6.18" ]]; then
        # Not -1: with commands in front of them it refuses to watch and dump, and loses answers.
        play "$work/theirs/socket" memcached 0 "${transcripts[@]}" "$here/memcache/large.txt"
        play "$work/theirs/socket" memcached 7 "${transcripts[@]}"
    else
        echo "the transcripts are those of memcached 1.6.18; left out for $version"
    fi
else
    echo "left out: the transcripts against memcached, which is not installed"
fi

# ---- clients of others ---------------------------------------------------------------------------
if command -v memccapable >/dev/null; then
    timeout 120 memccapable -h 127.0.0.1 -p "$port" -a >capable 2>&1
    grep -q '^All tests passed$' capable && ! grep -qi fail capable ||
        fail "memccapable -a: $(cat capable)"
    timeout 120 memcaslap -s "$address" -T 1 -c 16 -x 20000 -v 0.5 >slap 2>&1
    grep -q '^verify_failed: 0$' slap && grep -q '^cmd_get: [1-9]' slap ||
        fail "memcaslap -v: $(cat slap)"
else
    echo "left out: libmemcached's checker and load; libmemcached-tools is not installed"
fi

tool=/usr/share/memcached/scripts/memcached-tool
if [ -r "$tool" ]; then
    for mode in stats settings display sizes 'keys 5' 'dump 5'; do
        # shellcheck disable=SC2086 # a mode and its operand
        timeout 30 perl "$tool" "$address" $mode >"tool" 2>&1 || fail "memcached-tool $mode"
        grep -q . tool || fail "memcached-tool $mode said nothing"
    done
    timeout 30 perl "$tool" "$address" stats | grep -q 'cmd_get  *[1-9]' ||
        fail 'memcached-tool stats knows of no gets'
    timeout 30 perl "$tool" "$address" display | grep -q '^ *1 ' ||
        fail 'memcached-tool display shows no class'
else
    echo "left out: memcached-tool, which is not installed"
fi

kill "${pids[0]}"
wait "${pids[0]}" || fail "goblin ended with $?: $(cat goblin.log)"
unset 'pids[0]'
[ "$failures" -eq 0 ] || { cat goblin.log; exit 1; }
echo "all as expected"

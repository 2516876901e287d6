#!/usr/bin/env bash
# goblin check: what it says of damage, as text and as JSON, its exit codes, and that --repair mends a
# store on two drives, one of which is lost and comes back.
set -uo pipefail
work=$(mktemp -d "${TMPDIR:-/var/tmp}/goblin-check.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
[ -x "${GOBLIN:-}" ] || { echo "GOBLIN must name the program" >&2; exit 1; }
failures=0

fail() {
    failures=$((failures + 1))
    echo "FAILED: $*"
}

expect() { # exit code, goblin's arguments...; out and err hold what it printed
    local code=$1 got
    shift
    "$GOBLIN" --memory 16M "$@" >out 2>err </dev/null
    got=$?
    [ "$got" -eq "$code" ] || fail "'goblin $*' ended with $got, not $code: $(cat out err)"
}

prints() { # pattern that standard output must hold
    grep -qE -- "$1" out || fail "printed '$(head -c 2000 out)', not '$1'"
}

flip() { # file, offset
    printf '\xff' | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

for i in $(seq 30); do
    head -c $((i * 6000)) /dev/urandom >"value.$i"
done

all_there() { # store, least number of the values that must be there, options...
    local store=$1 least=$2 there=0 i
    shift 2
    for i in $(seq 30); do
        if "$GOBLIN" --memory 16M "$@" get "$store" "key/$i" >got 2>/dev/null; then
            cmp -s got "value.$i" || fail "key/$i has other bytes"
            there=$((there + 1))
        fi
    done
    [ "$there" -ge "$least" ] || fail "only $there of $least objects are there"
}

# ---- one drive: each kind of structure -----------------------------------------------------------
expect 0 init store --size 64M --segment 1M --lanes 2
for i in $(seq 30); do
    expect 0 put store "key/$i" "value.$i"
done
expect 0 check store
[ "$(wc -l <out)" -eq 2 ] || fail "a sound store gave '$(cat out)'"
expect 2 check store --yes
grep -qF 'give both' err || fail "--yes alone said '$(cat err)'"

flip store/GOBLIN 50
flip store/CHECKPOINT 5000
flip store/00000000.seg $((1048576 - 4096 + 60))
flip store/00000001.seg 4100
: >store/strange
expect 1 check store
prints '^damaged: identity: store/GOBLIN: one of the two identity blocks does not verify$'
prints '^damaged: checkpoint: store/CHECKPOINT: '
prints '^damaged: summary: store/00000000.seg: '
prints '^damaged: record: store/00000001.seg: '
prints '^harmless: file: store/strange: '
prints '^    at store/00000001.seg, offset 4096$'
prints '^    it means: '
prints '^    a repair writes both anew$'
prints '^    a repair can do nothing about it$'
prints '^0 bad, 0 of them removed; '
prints '^4 damaged, 1 harmless findings besides; --repair mends what can be mended$'
expect 1 check store --json
for text in '"part": "identity"' '"state": "found"' '"harmless": true' '"repair": "writes both anew"' \
    '"damaged": 4,' '"unrepaired": 0,'; do
    grep -qF -- "$text" out || fail "--json printed '$(cat out)', not '$text'"
done
expect 1 check store --repair --json
for text in '"repairs": [' '"state": "repaired"' '"repaired": 4,' '"unrepaired": 1,'; do
    grep -qF -- "$text" out || fail "--repair --json printed '$(cat out)', not '$text'"
done
expect 0 check store
prints '^0 damaged, 1 harmless findings besides; '
rm store/strange
expect 0 check store
all_there store 30

# ---- two drives, one of them lost ----------------------------------------------------------------
expect 0 init one,two --size 128M --segment 1M --lanes 2 --mode store
for i in $(seq 30); do
    expect 0 put one,two "key/$i" "value.$i"
done
mv one away
expect 3 get one,two key/1
grep -qF -- '--degraded' err || fail "without a drive it said '$(cat err)'"
expect 1 check one,two
prints '^damaged: drive: one: the drive is missing$'
all_there one,two 5 --degraded
expect 0 put one,two new value.1 --degraded
mv away one
expect 3 get one,two key/1
grep -qF 'missed an opening' err || fail "with a stale drive it said '$(cat err)'"
expect 1 check one,two --repair
prints '^not repaired: drive: one$'
expect 1 check one,two --repair --yes
prints '^repaired: drive: one$'
expect 0 check one,two
all_there one,two 5
expect 0 get one,two new
cmp -s out value.1 || fail 'what was put meanwhile is not there'

[ "$failures" -eq 0 ] || exit 1
echo 'check: all good'

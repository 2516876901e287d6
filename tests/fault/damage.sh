#!/usr/bin/env bash
# Every class of structure on disk, flipped and cut off at random before the store is opened: opening
# never crashes, `goblin check` says so where objects are hurt, no byte is wrong, and the rest is
# served. FAULT_TRIALS is how many of each (2); GOBLIN_SEED replays.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/fault/lib.sh
. "$here/lib.sh"
[ -x "${GOBLIN:-}" ] || { echo "GOBLIN must name the program" >&2; exit 1; }
[ -x "${FAULTDAMAGE:-}" ] || { echo "FAULTDAMAGE must name the program" >&2; exit 1; }
seed=${GOBLIN_SEED:-$RANDOM$RANDOM}
echo "GOBLIN_SEED=$seed"

# The store to be hurt: as a clean close leaves it, the same without its checkpoint (bare), and as a
# kill leaves it, all segments unsealed.
load_start log env GOBLIN_SEED="$seed"
tell open "$work/clean" create=1 size=32M segment=1M memory=16M mode=store lanes=2 heads=1
tell put 0 60 8 3000 none && whole
tell put 100 40 10K 50K none && whole
tell put 200 10 80K 200K none && whole
tell stream 300 3 600K 1M none && whole
ok sync
cp -r --sparse=always clean killed
ok close
load_end
cp -r --sparse=always clean bare
rm bare/CHECKPOINT bare/HEADS
objects=113

# Opens what was hurt, with `goblin check` first, and looks at every object. With both headers of a
# segment gone a store in store mode opens only when it is asked to do without.
judge() { # what, most objects that may be lost, whether it must be refused at first
    local most=$2 refused=$3 status
    "$GOBLIN" --log error check hurt >check.out 2>&1
    status=$?
    checks=$((checks + 1))
    [ "$status" -le 2 ] || fail "goblin check ended with $status: $(tail -n 3 check.out)"
    rm -f said
    cp log log.trial
    load_start log.trial
    tell open "$work/hurt" memory=16M
    if [ "$refused" = yes ]; then
        holds rc -eq -2014
        pass test "$status" -ne 0
        tell open "$work/hurt" memory=16M degraded=1
    fi
    if [ "$(field rc)" -lt 0 ]; then
        fail "$1: it does not open: $answer"
        load_end
        return
    fi
    holds ms -lt 2000
    tell verify none
    holds wrong -eq 0
    holds stale -eq 0
    holds failed -eq 0
    local lost=$(field missing)
    checks=$((checks + 1))
    [ "$lost" -le "$most" ] || fail "$1: $lost objects are lost, at most $most may be"
    # What check could not read it must have reported.
    tell stats left_bad
    [ "$(field left_bad)" -eq 0 ] || pass test "$status" -ne 0
    tell put 900 10 8 50K written && whole
    tell read 900 10 && whole
    ok close
    load_end
}

trial() { # from, class, how, most, number
    rm -rf hurt
    cp -r --sparse=always "$1" hurt
    "$FAULTDAMAGE" hurt "$2" "$3" "$((seed + $5))" || { fail "no $2 in a $1 store"; return; }
    local refused=no
    [ "$2" != headers ] || refused=yes
    judge "$2 ($1, $3)" "$4" $refused
}

segment=$objects # what one segment may hold at the most
number=0
while read -r from class flipped cut; do
    for ((i = 0; i < ${FAULT_TRIALS:-2}; i++)); do
        number=$((number + 1))
        echo "== $class of a $from store"
        trial "$from" "$class" flip "$flipped" $number
        [ "$cut" = - ] || trial "$from" "$class" truncate "$cut" $number
    done
done <<EOS
clean identity 0 -
clean header 0 $segment
clean copy 0 0
clean headers $segment -
clean footer 0 0
clean summary 0 $segment
clean record 0 $segment
clean key 0 $segment
clean payload 1 $segment
clean extents 1 $segment
clean extent 1 $segment
clean sums 1 $segment
clean checkpoint-head 0 0
clean checkpoint-chunk 0 0
clean heads 0 0
bare header 0 $segment
bare copy 0 0
bare headers $segment -
bare footer 0 0
bare summary 0 $segment
bare record 0 $segment
bare payload 1 $segment
bare extents 1 $segment
bare sums 1 $segment
killed identity 0 -
killed header 0 $segment
killed copy 0 0
killed headers $segment -
killed record 1 $segment
killed key 1 $segment
killed payload 1 $segment
killed extents 1 $segment
killed extent 1 $segment
killed sums 1 $segment
EOS
finish

#!/usr/bin/env bash
# The verbs with workers, with many of them: what load stores is what the files hold, check reads it
# all, and a store too full or a memory too small ends them with a message instead of a hang.
set -euo pipefail
work=$(mktemp -d "${TMPDIR:-/var/tmp}/goblin-threads.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

goblin() {
    "$GOBLIN" --memory 24M --log error "$@"
}
fail() {
    echo "FAILED: $*"
    exit 1
}

mkdir -p tree/some tree/large
for i in $(seq 400); do
    printf '%*s' $((i * 97)) "$i" >"tree/some/$i"
done
for i in $(seq 8); do
    head -c $((i * 700000)) /dev/urandom >"tree/large/$i"
done

goblin init store --size 256M --segment 4M
for workers in 1 16; do
    goblin load store tree --workers "$workers" --prefix "$workers/" >out
    grep -q '^loaded 408 objects, .* 0 failed$' out || fail "load said '$(cat out)'"
done
for name in some/1 some/400 large/1 large/8; do
    for workers in 1 16; do
        goblin get store "$workers/$name" | cmp - "tree/$name" || fail "$workers/$name differs"
    done
done
goblin check store --workers 16 >out || fail "check found '$(cat out)'"
grep -q '^read 816 objects, ' out || fail "check read '$(cat out)'"
goblin ls store | sort >keys
for workers in 1 16; do
    (cd tree && find . -type f -printf "$workers/%P\n")
done | sort | cmp - keys || fail 'ls lists other keys than were loaded'

# A store that is full ends the load, with one message.
goblin init full --size 16M --segment 1M --mode store
code=0
goblin load full tree --workers 8 >out 2>err || code=$?
[ "$code" -eq 3 ] || fail "a load into a full store ended with $code"
[ "$(grep -c 'the store is full' err)" -eq 1 ] || fail "a full store said '$(cat err)'"
goblin check full --workers 4 >out || fail "a full store is damaged: $(cat out)"

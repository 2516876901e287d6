#!/usr/bin/env bash
# `make demo` works on a few files, shows what it promises and leaves nothing behind.
set -euo pipefail
work=$(mktemp -d "${TMPDIR:-/var/tmp}/goblin-demo-test.XXXXXX")
trap 'rm -rf "$work"' EXIT

shows() { # extended regular expression of a whole line
    grep -qxE -- "$1" <<<"$output" || {
        printf 'the demo does not print "%s":\n%s\n' "$1" "$output"
        exit 1
    }
}
output=$(DEMO_DIR=$work DEMO_BYTES=$((2 << 20)) DEMO_MEMORY=16M \
    "$GOBLIN_SOURCE/scripts/demo" "$GOBLIN_BUILD" "$GOBLIN_SOURCE/src" 2>&1) || {
    echo "$output"
    exit 1
}
number='[0-9.]+ +'
shows "[0-9]+ files of $GOBLIN_SOURCE/src, [0-9]+ MiB; RAM for an engine: 16M; drive: .*"
shows 'loaded [0-9,]+ objects, .* 0 failed'
shows 'the same bytes'
shows '0 bad, .* 0 checksum errors, 0 read errors'
shows "goblin +($number){8}($number){0,1}[0-9]+"
shows "rocksdb +($number){8}($number){0,1}[0-9]+"
shows 'compared with its file: all the same\.'
[ -z "$(ls "$work")" ] || {
    echo "the demo leaves behind: $(ls "$work")"
    exit 1
}
for wrong in "$work/absent" "$work"; do
    if DEMO_DIR=$work "$GOBLIN_SOURCE/scripts/demo" "$GOBLIN_BUILD" "$wrong" >"$work/log" 2>&1; then
        echo "the demo accepts $wrong"
        exit 1
    fi
done

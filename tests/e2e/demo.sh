#!/usr/bin/env bash
# `make demo` works, and shows what it promises.
set -euo pipefail
output=$("$GOBLIN_SOURCE/scripts/demo" "$GOBLIN_BUILD" 2>&1) || {
    echo "$output"
    exit 1
}
for line in 'hello from disk' 'the same 64 MiB' '$ goblin stats store'; do
    grep -qxF -- "$line" <<<"$output" || {
        printf 'the demo does not print "%s":\n%s\n' "$line" "$output"
        exit 1
    }
done

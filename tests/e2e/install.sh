#!/usr/bin/env bash
# What `make install` leaves is enough to build and run a C and a C++ program, shared and static,
# and libgoblin.so shows what the public headers declare: all of it and nothing else.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$GOBLIN_BUILD" --prefix "$work/usr" >"$work/log" || {
    cat "$work/log"
    exit 1
}
pc=$(find "$work/usr" -name goblin.pc)
lib=$(cd "$(dirname "$pc")/.." && pwd)
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$pc")

for file in bin/goblin include/goblin/goblin.h share/doc/goblin/LICENSE share/goblin/serve.ini \
    lib/systemd/system/goblin.service; do
    [ -e "$work/usr/$file" ] || {
        echo "not installed: $file"
        exit 1
    }
done

# The unit as systemd reads it, with the program that was installed; it has to find fault with a bad
# one.
if command -v systemd-analyze >/dev/null; then
    unit=$work/goblin.service
    sed "s|^ExecStart=[^ ]*|ExecStart=$work/usr/bin/goblin|" \
        "$work/usr/lib/systemd/system/goblin.service" >"$unit"
    said=$(systemd-analyze verify --man=no "$unit" 2>&1 | grep -F goblin.service || true)
    if [ -n "$said" ]; then
        echo "$said"
        exit 1
    fi
    sed 's/^ProtectHome=.*/ProtectHome=perhaps/' "$unit" >"$work/goblin-bad.service"
    systemd-analyze verify --man=no "$work/goblin-bad.service" 2>&1 | grep -qi 'protect home' || {
        echo 'systemd-analyze finds nothing wrong with a bad unit'
        exit 1
    }
fi

grep -hoE '\bgoblin_[a-z0-9_]+\(' "$work"/usr/include/goblin/*.h | tr -d '(' | sort -u >"$work/named"
nm -D --defined-only --format=posix "$lib/libgoblin.so" | awk '$2 == "T" { print $1 }' |
    sed 's/@.*//' | sort -u >"$work/shown"
if ! diff "$work/named" "$work/shown" >"$work/diff"; then
    echo 'named by the headers (<) but not shown by libgoblin.so (>), or the other way round:'
    cat "$work/diff"
    exit 1
fi
nm -D --defined-only --format=posix "$lib/libgoblin.so" | awk '$2 != "T" && $2 != "A"' >"$work/data"
if [ -s "$work/data" ]; then
    echo 'libgoblin.so shows more than functions:'
    cat "$work/data"
    exit 1
fi
readelf -d "$lib/libgoblin.so" | grep -q 'SONAME.*libgoblin\.so\.[0-9]*\]'

warn=(-Wall -Wextra -Wpedantic -Werror)
read -ra shared <<<"$(pkg-config --cflags --libs goblin)"
read -ra static <<<"$(pkg-config --static --cflags --libs goblin)"
static=("${static[@]/#-lgoblin/-l:libgoblin.a}")
examples=$GOBLIN_SOURCE/examples

try() { # what it prints, what it is, compiler and its flags...
    local wanted=$1 what=$2 printed
    shift 2
    "$@" -o "$work/program"
    printed=$(LD_LIBRARY_PATH=$lib "$work/program" "$work/store")
    rm -rf "$work/store"
    if [ "$printed" != "$wanted" ]; then
        echo "$what printed: $printed"
        exit 1
    fi
    echo "$what works"
}
try 'hello from disk' 'C, shared' gcc -std=c17 "${warn[@]}" "$examples/hello.c" "${shared[@]}"
try 'hello from disk' 'C, static' gcc -std=c17 "${warn[@]}" "$examples/hello.c" "${static[@]}"
try 'hello from C++' 'C++, shared' g++ -std=c++11 "${warn[@]}" "$examples/hello.cc" "${shared[@]}"
try 'hello from C++' 'C++, static' g++ -std=c++11 "${warn[@]}" "$examples/hello.cc" "${static[@]}"

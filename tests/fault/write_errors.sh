#!/usr/bin/env bash
# A drive that fails writes, below a real file system. One that fails a few: the segments it met are
# abandoned, what was being written goes elsewhere, and no put hears of it. One that fails all: it is
# retired, every put that asks to be safe says so, the process lives, and what is there is served;
# the drive well again, the store opens and holds everything that was acknowledged. GOBLIN_SEED
# replays the sizes.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/fault/lib.sh
. "$here/lib.sh"
# shellcheck source=tests/fault/lib_nbd.sh
. "$here/lib_nbd.sh"

start() { # io: false where there is no such path
    rm -rf log said mnt/store
    load_start log
    tell open "$work/mnt/store" create=1 size=64M segment=2M memory=16M mode=store io="$1" \
        flush_ms=50
    if [ "$(field rc)" -lt 0 ] && [ "$1" = uring ]; then
        echo "no io_uring here: $answer"
        load_end
        return 1
    fi
    holds rc -ge 0
    tell put 0 40 8 300K synced && whole
}

# From here on writes fail. What the file system itself has yet to write is written first: half a
# minute after it got dirty the kernel would, and a file system that cannot write turns read-only.
break_writes() {
    sync -f mnt
    touch write.eio
}

# Kills the process, opens the store again and looks at all that was acknowledged.
check_after_kill() { # io
    load_kill
    load_start log
    tell open "$work/mnt/store" memory=16M io="$1" && holds rc -ge 0
    tell verify written && whole
    tell put 900 10 8 300K written && whole
    tell read 900 10 && whole
    ok close
    load_end
}

some_fail() { # io, how
    echo "== some writes fail, $2, $1"
    start "$1" || return
    break_writes
    local i
    # A write each, one in fifty of which fails: by chance none of the first few hundred may.
    for ((i = 0; i < 1000; i++)); do
        tell put $((100 + i % 300)) 1 8 20K "$2" && whole
        [ "$2" != none ] || tell sleep 60
        tell stats write_errors
        [ "$(field write_errors)" -eq 0 ] || break
    done
    rm write.eio
    holds write_errors -ge 1
    said 'Input/output error): it is abandoned, what it was to hold goes elsewhere'
    tell put 500 40 8 300K "$2" && whole && holds ok -eq 40
    tell stream 600 4 300K 600K "$2" && whole && holds ok -eq 4
    ok sync
    tell read 0 700 && whole
    alive
    check_after_kill "$1"
}

all_fail() { # io, how
    echo "== every write fails, $2, $1"
    start "$1" || return
    break_writes
    local taken
    tell put 100 60 8 300K "$2" && sound
    taken=$(field ok)
    [ "$2" = none ] || holds ok -eq 0
    [ "$2" = none ] || holds fault -eq -5
    tell stream 200 4 300K 600K "$2" && sound
    taken=$((taken + $(field ok)))
    [ "$2" = none ] || holds ok -eq 0
    tell sync
    [ $taken -eq 0 ] || holds rc -lt 0 # else there may be nothing left to be synced
    tell read 0 40 && whole && holds ok -eq 40
    tell delete 0 5 written && holds ok -eq 0
    alive
    tell stats write_errors drives_retired && holds write_errors -ge 1
    holds drives_retired -eq 1
    said 'it is not written to any more'
    rm write.eio
    check_after_kill "$1"
}

write_rate=2%
make_drive 256M journal=outside || { fail "no drive: $(cat nbd.said)"; finish; }
for io in uring sync; do
    for how in none written synced; do
        some_fail $io $how
    done
done
drive_down
write_rate=100%
make_drive 256M journal=outside || { fail "no drive: $(cat nbd.said)"; finish; }
for io in uring sync; do
    for how in none written synced; do
        all_fail $io $how
    done
done
finish

#!/usr/bin/env bash
# A drive that fails reads, below a real file system: what needs it is a miss and counted, what is in
# RAM is served, and no byte is wrong. GOBLIN_SEED replays the sizes.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/fault/lib.sh
. "$here/lib.sh"
# shellcheck source=tests/fault/lib_nbd.sh
. "$here/lib_nbd.sh"

make_drive 256M journal=outside || { fail "no drive: $(cat nbd.said)"; finish; }

for io in uring sync; do
    echo "== $io"
    rm -f log said
    load_start log
    tell open "$work/mnt/$io" create=1 size=96M segment=2M memory=16M head=4K mode=store io=$io
    if [ "$(field rc)" -lt 0 ] && [ $io = uring ]; then
        echo "no io_uring here: $answer"
        load_end
        continue
    fi
    tell put 0 60 200K 600K synced && whole && holds ok -eq 60
    tell put 1000 60 8 3000 synced && whole
    tell stream 2000 4 3M 4M synced && whole

    touch read.eio
    tell read 0 60 && sound
    bad=$(field missing)
    holds failed -eq 0
    tell read 2000 4 && sound
    bad=$((bad + $(field missing)))
    pass test "$bad" -ge 10
    tell read 1000 60 && whole && holds ok -eq 60
    tell stats read_errors left_bad checksum_errors
    holds read_errors -eq "$bad"
    holds left_bad -eq "$bad"
    holds checksum_errors -eq 0
    said 'Input/output error; the object is dropped'
    tell put 3000 20 100K 200K written && whole
    rm read.eio

    # The drive is well again: what it still holds is served, and what left can be stored anew.
    tell read 3000 20 && whole
    tell put 0 60 200K 600K synced && whole
    tell read 0 60 && whole && holds ok -eq 60
    alive
    ok close
    tell open "$work/mnt/$io" io=$io memory=16M && holds rc -ge 0
    tell verify synced && sound && holds failed -eq 0
    ok close
    load_end
done
finish

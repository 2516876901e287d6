#!/usr/bin/env bash
# Less than a store would like: no rings, rings that refuse an operation, few descriptors, little
# locked memory, no huge pages, system calls refused. It works all the same, and where it does
# without something one line says so.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/fault/lib.sh
. "$here/lib.sh"
[ -x "${CONFINE:-}" ] || { echo "CONFINE must name the program" >&2; exit 1; }
need mkfs.ext4
mounted_file "$work/disk" 320M '' mkfs.ext4 -q || { fail "no file system"; finish; }

# A whole life under a prefix. Each of its two openings must log the line and no other complaint;
# '' is none at all, and `?text` lets them say lines with it or nothing.
lives() { # line, prefix...
    local line=$1
    shift
    echo "== $*"
    rm -f log said
    load_start log "$@"
    if ! tell open "$work/disk/store" create=1 size=128M segment=1M memory=16M mode=store; then
        wait "$load_pid"
        [ $? -ne 77 ] || echo "not here: $(tail -n 1 said)"
        return
    fi
    holds rc -ge 0
    holds ms -lt 2000
    tell put 0 60 8 200K written && whole && holds ok -eq 60
    tell stream 300 4 300K 1M synced && whole && holds ok -eq 4
    tell put 400 60 8 200K none && whole && holds ok -eq 60
    tell delete 0 5 synced && whole
    ok sync
    tell read 0 460 && whole
    ok close
    tell open "$work/disk/store" memory=16M && holds rc -ge 0 && holds ms -lt 2000
    tell verify synced && whole
    ok close
    load_end
    checks=$((checks + 1))
    if [ "${line#\?}" != "$line" ]; then
        ! grep '^\(warn\|error\):' said | grep -qvF -- "${line#\?}" || fail "other complaints"
    elif [ -n "$line" ]; then
        [ "$(grep -cF -- "$line" said)" -eq 2 ] || fail "the log does not say '$line' twice"
        [ "$(grep -c '^\(warn\|error\):' said)" -eq 2 ] || fail "the log says more than '$line'"
    elif grep -q '^\(warn\|error\):' said; then
        fail "a complaint without need"
    fi
    rm -rf "$work/disk/store"
}

# Where the machine itself has no rings, every life says that instead.
no_rings='io_uring is not used: '
lives "$no_rings" "$CONFINE" --refuse io_uring_setup=EPERM
lives "$no_rings" "$CONFINE" --refuse io_uring_setup=ENOSYS
grep -q "io_uring_setup: .*seccomp" said || fail "no hint at seccomp: $(head -n 3 said)"
lives "$no_rings" "$CONFINE" --refuse io_uring_setup=ENOMEM
lives "$no_rings" "$CONFINE" --refuse io_uring_register=EPERM
lives "$no_rings" "$CONFINE" --refuse io_uring_enter=EPERM
lives "$no_rings" "$CONFINE" --refuse io_uring_enter=ENOSYS
for opcode in read write fsync; do
    lives "$no_rings" env FAULT_REFUSE_OPCODE=$opcode
done

# What the plain life says is what a life that lacks nothing says: nothing, or of rings alone.
usual=
lives '' env
! grep -qF "$no_rings" said || usual=$no_rings
# Kernels differ in what they count against the limit, and count what others of the user hold.
lives '?RLIMIT_MEMLOCK' "$CONFINE" --locked 65536
lives "$usual" "$CONFINE" --no-huge-pages
lives "$usual" "$CONFINE" --refuse madvise=EPERM
lives "$usual" "$CONFINE" --refuse statx=ENOSYS
lives "$usual" "$CONFINE" --refuse membarrier=ENOSYS
lives "$usual" "$CONFINE" --refuse fallocate=ENOSYS
lives "$usual" "$CONFINE" --refuse fallocate=EPERM
lives "$usual" "$CONFINE" --refuse fadvise64=EPERM
lives "$usual" "$CONFINE" --files 64

# More segments than descriptors.
echo "== 64 descriptors, 200 segments"
rm -f log said
load_start log "$CONFINE" --files 64
tell open "$work/disk/many" create=1 size=200M segment=1M memory=16M mode=store && holds rc -ge 0
tell put 0 800 100K 200K written && whole && holds ok -eq 800
tell stream 1000 10 1M 4M synced && whole && holds ok -eq 10
tell read 0 1100 && whole && holds ok -eq 810
ok close
tell open "$work/disk/many" memory=16M && holds rc -ge 0 && holds ms -lt 2000
tell verify synced && whole && holds ok -eq 810
tell churn 2 300 8 300K synced && whole
ok close
load_end
said '200 segments, and by RLIMIT_NOFILE 32 may be open at once'
pass test "$(find disk/many -name '*.seg' | wc -l)" -gt 64
finish

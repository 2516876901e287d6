#!/usr/bin/env bash
# File systems that differ: tmpfs, xfs, btrfs, one without preallocation, one on 4 KiB sectors. Making
# and opening a store takes no time on any of them, however large it may grow, and nothing is ever
# filled with zeros for it.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/fault/lib.sh
. "$here/lib.sh"
need mkfs.ext4 mkfs.ext2 mkfs.xfs mkfs.btrfs

lives_on() { # dir
    local dir=$work/$1 used
    rm -f log said
    load_start log
    tell open "$dir/store" create=1 size=64M segment=2M memory=16M && holds rc -ge 0
    holds ms -lt 2000
    tell put 0 100 8 200K written && whole && holds ok -eq 100
    tell stream 200 4 1M 3M synced && whole && holds ok -eq 4
    tell delete 0 10 synced && whole
    tell read 0 300 && whole
    load_kill
    load_start log
    tell open "$dir/store" memory=16M && holds rc -ge 0
    holds ms -lt 2000
    tell verify written && whole
    tell put 300 50 8 200K none && whole
    ok close
    load_end
    # Large segments of which nothing is written yet: reserved or sparse, never filled.
    load_start log.large
    tell open "$dir/large" create=1 size=8T segment=1G memory=64M lanes=1 && holds rc -ge 0
    holds ms -lt 2000
    tell stats device_write_bytes && holds device_write_bytes -lt 1000000
    ok close
    load_end
    used=$(du -sm --apparent-size "$dir/large" | cut -f 1)
    echo "a large store: $used MiB in its files, $(du -sm "$dir/large" | cut -f 1) MiB taken"
    rm -rf "$dir/store" "$dir/large"
}

can() { # name, what follows mounted_file's name
    local name=$1
    shift
    echo "== $name"
    grep -qw "${name%%-*}" /proc/filesystems || {
        echo "this kernel has no ${name%%-*}"
        return 1
    }
    checks=$((checks + 1))
    mounted_file "$work/$name" "$@" || fail "no $name could be made"
}

echo "== tmpfs"
mkdir tmpfs && pass mount -t tmpfs -o size=256M tmpfs tmpfs && lives_on tmpfs && umount tmpfs
if can xfs 4G '' mkfs.xfs -q; then
    lives_on xfs
    umount xfs
fi
if can btrfs 4G '' mkfs.btrfs -q; then
    lives_on btrfs
    umount btrfs
fi
if can ext2 4G '' mkfs.ext2 -q; then # no extents, so no preallocation
    lives_on ext2
    umount ext2
fi
if can ext4-4k 4G '--sector-size 4096 --direct-io=on' mkfs.ext4 -q; then
    lives_on ext4-4k
    umount ext4-4k
fi
finish

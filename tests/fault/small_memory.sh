#!/usr/bin/env bash
# Keys that outgrow the memory budget of a cache: objects leave, one warning says why, a counter says
# how many, and nothing fails. A store opens with less memory than it was filled with, and with more.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/fault/lib.sh
. "$here/lib.sh"
need mkfs.ext4
mounted_file "$work/disk" 512M '' mkfs.ext4 -q || { fail "no file system"; finish; }

load_start log
tell open "$work/disk/store" create=1 size=256M memory=8M mode=cache && holds rc -ge 0
tell put 0 300000 8 16 none && whole && holds ok -eq 300000
tell stats objects left_ram left_disk memory_used_bytes
holds left_ram -ge 100000
holds objects -le 200000
holds objects -ge 20000
holds memory_used_bytes -le $((8 << 20))
said 'memory of 8388608 bytes is too small for the keys of this store: objects leave'
pass test "$(grep -c 'is too small for the keys' said)" -eq 1
tell read 0 300000 && sound && holds failed -eq 0
pass test "$(field right)" -ge 20000
tell put 0 1000 8 16 none && whole
tell delete 0 1000 none && whole
tell read 0 1000 && whole
ok close
rm -f said

echo "== more memory, then less"
tell open "$work/disk/store" memory=64M && holds rc -ge 0
tell put 400000 100000 8 16 none && whole
tell read 400000 100000 && whole
ok close
tell open "$work/disk/store" memory=8M && holds rc -ge 0
tell read 400000 100000 && sound && holds failed -eq 0
tell put 600000 1000 8 16 none && whole
tell stats memory_used_bytes && holds memory_used_bytes -le $((8 << 20))
ok close
load_end
finish

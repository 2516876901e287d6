#!/usr/bin/env bash
# A file system that others fill. Writes say -ENOSPC in both modes at the most, reads and deletes go
# on, and once there is room again writes do too, without opening the store anew. The same with
# files that are cut off under a store that runs, and before it is opened.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/fault/lib.sh
. "$here/lib.sh"
need mkfs.ext4 fallocate

mounted_file "$work/disk" 256M '' mkfs.ext4 -q -m 0 || { fail "no file system"; finish; }

fill() { # leaves so many MiB
    local free
    free=$(df --output=avail -m disk | tail -n 1)
    fallocate -l "$((free - $1))M" disk/others 2>/dev/null || : # it takes what there is
}

for mode in store cache; do
    for io in uring sync; do
        echo "== others fill the file system: $mode, $io"
        rm -rf disk/* log said
        load_start log
        tell open "$work/disk/store" create=1 size=192M segment=2M memory=64M mode=$mode io=$io
        if [ "$(field rc)" -lt 0 ] && [ $io = uring ]; then
            echo "no io_uring here: $answer"
            load_end
            continue
        fi
        tell put 0 100 8 300K written && whole && holds ok -eq 100
        fill 3
        tell put 1000 300 100K 200K written && sound
        if [ $mode = store ]; then
            holds failed -ge 1
            holds fault -eq -28
        else
            # A cache makes room from its own.
            holds failed -eq 0
        fi
        holds slowest_ms -lt 5000
        said 'No space left on device'
        pass test "$(grep -c 'No space left' said)" -le 20
        tell read 0 100 && sound && holds failed -eq 0
        [ $mode = cache ] || holds missing -eq 0
        # A full disk can be emptied, whatever else takes the room that there is.
        for ((i = 0; i < 100; i += 10)); do
            tell delete $i 10 written && sound && holds failed -eq 0
            [ $mode = cache ] || holds ok -eq 10
            tell put $((4000 + i)) 10 8 20K written && sound
        done
        tell stats objects write_errors && holds write_errors -eq 0
        rm disk/others
        tell put 2000 100 100K 200K written && whole && holds ok -eq 100
        tell stream 3000 4 1M 3M written && whole && holds ok -eq 4
        tell read 2000 100 && sound && holds failed -eq 0
        [ $mode = cache ] || holds missing -eq 0
        ok close
        tell open "$work/disk/store" memory=64M io=$io && holds rc -ge 0
        tell verify written && sound && holds failed -eq 0
        [ $mode = cache ] || holds missing -eq 0
        ok close
        load_end
    done
done

echo "== no room from the start"
rm -rf disk/* log said
fill 0
load_start log
tell open "$work/disk/store" create=1 size=64M segment=2M memory=64M
if [ "$(field rc)" -ge 0 ]; then
    tell put 0 3 8 300K written && holds failed -eq 3
    holds fault -eq -28
    rm disk/others
    tell put 0 50 8 300K written && whole && holds ok -eq 50
    ok close
else
    pass grep -q 'No space left on device' <<<"$answer"
    rm disk/others
fi
load_end

for io in uring sync; do
    echo "== files cut off: $io"
    rm -rf disk/* log said
    load_start log
    tell open "$work/disk/store" create=1 size=64M segment=2M memory=64M mode=store io=$io head=4K
    if [ "$(field rc)" -lt 0 ] && [ $io = uring ]; then
        load_end
        continue
    fi
    tell put 0 120 100K 200K written && whole
    tell put 200 100 8 2000 synced && whole
    first=$(find disk/store -name '*.seg' -size +0 | sort | head -n 1)
    truncate -s 100K "$first"
    tell read 0 120 && sound && holds failed -eq 0
    pass test "$(field missing)" -ge 1
    pass test "$(field right)" -ge 60
    tell read 200 100 && whole
    tell stats left_bad && holds left_bad -ge 1
    tell put 300 40 100K 200K written && whole
    tell read 300 40 && whole
    truncate -s 0 "$first"
    tell put 400 40 100K 200K written && whole
    ok close

    second=$(find disk/store -name '*.seg' -size +0 | sort | head -n 2 | tail -n 1)
    truncate -s 1M "$second"
    tell open "$work/disk/store" memory=64M io=$io && holds rc -ge 0
    holds ms -lt 2000
    tell verify written && sound && holds failed -eq 0
    pass test "$(field right)" -ge 100
    tell put 500 40 100K 200K written && whole
    tell read 500 40 && whole
    ok close
    load_end
done
finish

# A drive that fails on demand, below a real ext4: a loop device on nbdfuse on nbdkit. Sourced.
#
#     ext4 -> loop device (direct) -> nbdfuse -> nbdkit -> error filter -> cache filter -> drive.raw
#
# While the file read.eio (write.eio) exists every read (write) of the drive fails with EIO. The
# cache filter keeps what was not flushed in its own memory: killed, it loses just that. The journal
# of the file system lies on a drive of its own that never fails, so that a short fault is one of
# the data alone; with `journal=inside` it fails along with the rest.

write_rate=100% # of writes, how many fail

drive_up() {
    rm -f drive.sock
    nbdkit --foreground --unix "$work/drive.sock" --filter=error --filter=cache file drive.raw \
        cache=writeback error=EIO error-pread-rate=100% error-pread-file="$work/read.eio" \
        error-pwrite-rate="$write_rate" error-pwrite-file="$work/write.eio" >>nbd.said 2>&1 &
    nbdkit_pid=$!
    await test -S drive.sock || return 1
    mkdir -p fuse
    nbdfuse fuse --unix "$work/drive.sock" >>nbd.said 2>&1 &
    nbdfuse_pid=$!
    await test -e fuse/nbd || return 1
    drive=$(loop_of fuse/nbd --direct-io=on)
}

make_drive() { # size, journal=inside|outside
    need nbdkit nbdfuse mkfs.ext4 mke2fs fusermount3
    [ -e /dev/fuse ] || skip "there is no /dev/fuse here"
    nbdkit --dump-plugin file >/dev/null 2>&1 || skip "nbdkit has no file plugin"
    truncate -s "$1" drive.raw
    drive_up || return 1
    local journal=()
    if [ "$2" = journal=outside ]; then
        truncate -s 32M journal.raw
        journal_device=$(loop_of journal.raw --sector-size 4096) || return 1
        mke2fs -q -b 4096 -O journal_dev "$journal_device" || return 1
        journal=(-J "device=$journal_device")
    fi
    mkfs.ext4 -q -F -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 "${journal[@]}" "$drive" &&
        mount_drive
}

mount_drive() {
    mkdir -p mnt
    mount "$drive" mnt || return 1
    losetup --detach "$drive" # once it is unmounted
    [ -z "${journal_device:-}" ] || losetup --detach "$journal_device"
}

drive_down() {
    await umount mnt 2>/dev/null
    await umount fuse 2>/dev/null
    wait "$nbdfuse_pid" 2>/dev/null
    kill "$nbdkit_pid" 2>/dev/null
    wait "$nbdkit_pid" 2>/dev/null
    rm -f drive.raw journal.raw
}

# The power goes: what the drive was not told to keep is lost. The file system above it is taken
# away, still believing otherwise.
power_cut() {
    kill -KILL "$nbdkit_pid"
    wait "$nbdkit_pid" 2>/dev/null
    [ -z "$load_pid" ] || load_kill
    await umount mnt 2>/dev/null # a ring that was killed lets go of its files a little later
    await umount fuse 2>/dev/null
    wait "$nbdfuse_pid" 2>/dev/null
}

# And comes back; mounting replays the journal.
power_on() {
    drive_up && mount_drive
}

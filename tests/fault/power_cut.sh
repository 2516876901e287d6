#!/usr/bin/env bash
# Power cuts below a real file system: everything acknowledged as synced is there afterwards, byte
# for byte, deletes included, and nothing is that was never stored. FAULT_CUTS is how many for each
# I/O path (3); GOBLIN_SEED replays the choices, not the moments.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/fault/lib.sh
. "$here/lib.sh"
# shellcheck source=tests/fault/lib_nbd.sh
. "$here/lib_nbd.sh"

make_drive 384M journal=inside || { fail "no drive: $(cat nbd.said)"; finish; }
seed=${GOBLIN_SEED:-$RANDOM$RANDOM}
RANDOM=$((seed % 32768))
echo "GOBLIN_SEED=$seed"

# The cut is one: bytes that were not flushed are gone.
head -c 1M /dev/zero >mnt/witness && sync mnt/witness
head -c 1M /dev/urandom >new
pass dd if=new of=mnt/witness bs=1M oflag=direct conv=notrunc status=none
pass cmp -s new mnt/witness
power_cut
pass power_on
pass cmp -s -n 1048576 mnt/witness /dev/zero

for io in uring sync; do
    echo "== $io"
    rm -f said log.$io
    load_start log.$io env GOBLIN_SEED="$seed"
    tell open "$work/mnt/$io" create=1 size=128M segment=2M memory=16M mode=store io=$io
    if [ "$(field rc)" -lt 0 ] && [ $io = uring ]; then
        echo "no io_uring here: $answer"
        load_end
        continue
    fi
    tell put 0 100 8 200K synced && whole
    tell stream 100 4 1M 2M synced && whole
    tell put 200 100 8 100K none && whole
    ok sync
    tell put 300 60 8 100K none && whole
    tell delete 0 20 synced && whole
    for ((cut = 1; cut <= ${FAULT_CUTS:-3}; cut++)); do
        echo "churn 60 400 8 150K synced" >&7
        sleep "$((RANDOM % 2)).$((RANDOM % 10))"
        sleep 0.3
        power_cut
        before=$(stat -c %s log.$io)
        power_on || { fail "no power: $(cat nbd.said)"; finish; }
        load_start log.$io env GOBLIN_SEED="$((seed + cut))"
        tell open "$work/mnt/$io" memory=16M io=$io && holds rc -ge 0
        tell verify synced && whole
        echo "cut $cut: $((before / 40)) steps in the log"
    done
    ok close
    tell open "$work/mnt/$io" memory=16M io=$io && holds rc -ge 0
    tell verify synced && whole
    ok close
    load_end
done
finish

#!/usr/bin/env bash
# goblin-bench churn on a store of some MiB: every engine returns the right versions, the reports
# hold what they promise, counts from inside and outside agree, and nothing is left behind.
set -uo pipefail
work=$(mktemp -d "${TMPDIR:-/var/tmp}/goblin-churn-test.XXXXXX")
mounted=
cleanup() {
    [ -z "$mounted" ] || umount "$mounted"
    rm -rf "$work"
}
trap cleanup EXIT
cd "$work" || exit 1
failures=0

fail() {
    failures=$((failures + 1))
    echo "FAILED: $*"
}

churn() {
    "$GOBLIN_BENCH" churn --dir scratch --out results --size 128M --fill 0.3 --memory 16M \
        --duration 1 --idle 1 --rounds 1 "$@"
}

# One second of overwriting; more of them where the machine is busy with other things, so that every
# engine comes to overwrite something. Leaves in `seconds` how many they were.
seconds=1
churn_well() { # bytes at least, flags...
    local least=$1
    shift
    for seconds in 1 5 20; do
        churn --duration "$seconds" "$@" || return
        figures user_bytes | awk -v least="$least" '$1 < least { exit 1 }' && return
    done
    echo "hardly anything was overwritten in $seconds s: $(figures user_bytes | tr '\n' ' ')" >&2
    return 1
}

holds() { # file, fixed text
    grep -qF -- "$2" "$1" || fail "$1 does not hold '$2'"
}

nothing_left() {
    [ ! -d scratch ] || [ -z "$(ls scratch)" ] || fail "scratch still holds $(ls scratch)"
}

# The figures of a name in churn.json, one a line.
figures() {
    sed -n "s/^ *\"$1\": \([-0-9.e]*\),\{0,1\}\$/\1/p" results/churn.json
}

within() { # percent, figures' name: every one of them is at most so far from 0
    figures "$2" | awk -v most="$1" '
        { n++; if ($1 > most || $1 < -most) exit 1 }
        END { if (n == 0) exit 1 }' || fail "$2 is not within $1 %: $(figures "$2" | tr '\n' ' ')"
}

# ---- a whole run ---------------------------------------------------------------------------------
churn_well 1000000 >out 2>err || fail "the churn ended with $?: $(cat err)"
nothing_left
for file in churn.json churn.md churn_time.dat churn_cdf.dat; do
    [ -s "results/$file" ] || fail "there is no $file"
done
if command -v gnuplot >/dev/null; then
    for plot in churn_time churn_cdf; do
        [ -s "results/$plot.svg" ] || fail "there is no $plot.svg"
        holds results/churn.md "($plot.svg)"
    done
fi
for engine in goblin rocksdb rocksdb-blob; do
    holds out "$engine"
    holds results/churn.json "\"name\": \"$engine\""
    holds results/churn.md "| $engine | busy |"
done
for field in wrong stale lost refused misses; do
    figures $field | grep -qvx 0 && fail "$field is not 0: $(figures $field | tr '\n' ' ')"
done
# A second idle, some busy and one after that, for three engines.
[ "$(grep -c '"phase":' results/churn.json)" -eq $((3 * (seconds + 2))) ] ||
    fail "the timelines are not of $((seconds + 2)) seconds"
[ "$(grep -c '"settled": true' results/churn.json)" -eq 3 ] || fail 'an engine did not settle'
if [ "$(stat -f -c %T .)" != tmpfs ]; then
    within 5 engine_off_percent
    figures file_off_percent | head -n 1 | awk '$1 > 5 || $1 < -5 { exit 1 }' ||
        fail "goblin's files are not what it says: $(figures file_off_percent | head -n 1) % off"
fi

# ---- a store that must make room -----------------------------------------------------------------
churn_well 2000000 --size 256M --fill 0.8 --memory 32M --age 0.3 --engines goblin >out 2>err ||
    fail "a full store ended with $?: $(cat err)"
nothing_left
for field in wrong stale lost; do
    [ "$(figures $field)" = 0 ] || fail "$field is $(figures $field) in a full store"
done
figures process_amplification | awk '$1 < 1.5 { exit 1 }' || fail 'nothing was moved to make room'
within 5 engine_off_percent
within 5 file_off_percent

# ---- a block device of its own -------------------------------------------------------------------
mount_device() {
    truncate -s 900M device && mkfs.ext4 -q -O ^has_journal -E lazy_itable_init=0 device 2>/dev/null &&
        mkdir -p own && mount -o loop device own 2>/dev/null
}
if mount_device; then
    mounted=$work/own
    "$GOBLIN_BENCH" churn --dir own --out results --size 128M --fill 0.3 --memory 16M --duration 2 \
        --idle 1 --rounds 1 --engines goblin,rocksdb >out 2>err || fail "on a device: $(cat err)"
    within 5 engine_off_percent
    within 5 device_off_percent
    holds results/churn.json '"device_shared": false'
    umount "$mounted" || fail 'the device is still in use'
    mounted=
else
    echo 'skipped: no loop device can be mounted here, so no device counts for the engine alone'
fi

# ---- what goes wrong is explained ----------------------------------------------------------------
refuses() { # exit code, text, flags...
    local code=$1 text=$2 got
    shift 2
    churn "$@" >out 2>err
    got=$?
    [ "$got" -eq "$code" ] || fail "'$*' ended with $got, not $code"
    holds err "$text"
    nothing_left
}
refuses 2 '--engines: "nosuch" is no engine' --engines goblin,nosuch
refuses 2 '"control" keeps no values' --engines control
refuses 2 'fewer --rounds' --rounds 2
refuses 2 '--fill "2"' --fill 2
refuses 1 '--rocksdb-lib' --rocksdb-lib ./nosuch.so --engines rocksdb
refuses 1 'give less data' --size 900T

# ---- ended from outside --------------------------------------------------------------------------
"$GOBLIN_BENCH" churn --dir scratch --out results --size 128M --duration 100 >out 2>err &
pid=$!
for _ in $(seq 100); do
    [ -z "$(ls scratch 2>/dev/null)" ] || break
    sleep 0.05
done
kill -TERM "$pid"
wait "$pid"
[ $? -eq 1 ] || fail 'an interrupted churn does not end with 1'
holds err interrupted
nothing_left

[ "$failures" -eq 0 ] || exit 1

#!/usr/bin/env bash
# goblin-bench study on a corpus of a few hundred objects: every engine answers rightly, the reports
# hold what they promise, and nothing is left behind, whether it ends well or not.
set -uo pipefail
work=$(mktemp -d "${TMPDIR:-/var/tmp}/goblin-study-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
    failures=$((failures + 1))
    echo "FAILED: $*"
}

study() {
    "$GOBLIN_BENCH" study --dir scratch --out results --scale 0.001 --requests 600 --slices 3 "$@"
}

holds() { # file, fixed text
    grep -qF -- "$2" "$1" || fail "$1 does not hold '$2'"
}

nothing_left() {
    [ ! -d scratch ] || [ -z "$(ls scratch)" ] || fail "scratch still holds $(ls scratch)"
}

# ---- a whole run ---------------------------------------------------------------------------------
engines='null control goblin-fixed goblin rocksdb rocksdb-blob rocksdb-cached rocksdb-blob-cached'
study --no-fio --verify-every 8 >out 2>err || fail "the study ended with $?: $(cat err)"
nothing_left
for file in summary.json metadata.json report.md reads.csv; do
    [ -s "results/$file" ] || fail "there is no $file"
done
for field in objects bytes populate_seconds populate_mib_s barrier_seconds requests replay_bytes \
    replay_seconds replay_mib_s ttfb_us ttlb_us disk_ttlb_us device_reads device_read_bytes \
    device_write_bytes rss_peak_bytes memory_budget_bytes link; do
    count=$(grep -c "\"$field\":" results/summary.json)
    [ "$count" -eq 8 ] || fail "summary.json has $field $count times, not once for each engine"
done
[ "$(grep -c '"requests": 600,' results/summary.json)" -eq 8 ] || fail 'requests are not 600 each'
[ "$(grep '"replay_bytes":' results/summary.json | sort -u | wc -l)" -eq 1 ] ||
    fail 'engines returned different numbers of bytes'
[ "$(grep -c '"verify_failures": 0,' results/metadata.json)" -eq 8 ] || fail 'bytes were wrong'
[ "$(grep -c '"misses": 0,' results/metadata.json)" -eq 8 ] || fail 'objects were missing'
for engine in $engines; do
    holds results/summary.json "\"name\": \"$engine\""
    rows=$(grep -c "^$engine," results/reads.csv)
    [ "$rows" -eq 600 ] || fail "reads.csv has $rows rows of $engine"
done
# Each slice begins with another engine than the one before.
first=$(awk -F, 'NR > 1 && $2 != slice { slice = $2; print $1 }' results/reads.csv | sort -u | wc -l)
[ "$first" -ge 2 ] || fail 'the order of the engines does not change'
"$GOBLIN_BENCH" simulate results/reads.csv --rate 937mbit >out 2>err || fail "simulate: $(cat err)"
holds out rocksdb

# ---- real files, asked for once each -------------------------------------------------------------
mkdir files
for i in 1 2 3 4 5 6 7 8; do
    head -c $((i * i * 3001)) /dev/urandom >"files/$i"
done
"$GOBLIN_BENCH" study --dir scratch --out results --data files --zipf 0 --requests 8 --slices 2 \
    --scale 1 --memory 16M --engines goblin,rocksdb --no-controls --no-fio --verify-every 1 \
    >out 2>err || fail "a study of files ended with $?: $(cat err)"
[ "$(grep -c '"verify_failures": 0,' results/metadata.json)" -eq 2 ] || fail 'files were wrong'
nothing_left

# ---- what goes wrong is explained ----------------------------------------------------------------
refuses() { # exit code, text, flags...
    local code=$1 text=$2 got
    shift 2
    study --no-fio "$@" >out 2>err
    got=$?
    [ "$got" -eq "$code" ] || fail "'$*' ended with $got, not $code"
    holds err "$text"
    nothing_left
}
refuses 2 '--engines: "nosuch" is no engine' --engines goblin,nosuch
refuses 2 '--slices 0 is outside 1 to 10000' --slices 0
refuses 2 '--memory "lots" is not a SIZE' --memory lots
refuses 2 '--nosuch is no flag' --nosuch
refuses 1 '--rocksdb-lib' --rocksdb-lib ./nosuch.so --engines rocksdb

# ---- ended from outside --------------------------------------------------------------------------
"$GOBLIN_BENCH" study --dir scratch --out results --scale 0.01 --engines rocksdb --no-fio \
    >out 2>err &
pid=$!
for _ in $(seq 100); do
    [ -z "$(ls scratch 2>/dev/null)" ] || break
    sleep 0.05
done
kill -TERM "$pid"
wait "$pid"
[ $? -eq 1 ] || fail 'an interrupted study does not end with 1'
holds err interrupted
nothing_left

[ "$failures" -eq 0 ] || exit 1

#!/usr/bin/env bash
# goblin-bench kv with a few thousand keys: every engine that is there answers rightly in every step,
# the figures are what they promise, and nothing is left behind.
set -uo pipefail
work=$(mktemp -d "${TMPDIR:-/var/tmp}/goblin-kv-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
    failures=$((failures + 1))
    echo "FAILED: $*"
}

kv() {
    "$GOBLIN_BENCH" kv --dir scratch --keys 2000 --duration 0.05 --warmup 0 --settle 0 \
        --json kv.json "$@"
}

holds() { # file, fixed text
    grep -qF -- "$2" "$1" || fail "$1 does not hold '$2'"
}

nothing_left() {
    [ ! -d scratch ] || [ -z "$(ls scratch)" ] || fail "scratch still holds $(ls scratch)"
}

rows() { # engine
    grep -cF "\"engine\": \"$1\"" kv.json
}

# ---- every workload ------------------------------------------------------------------------------
kv --steps fillseq,revrangeww,overwrite >out 2>err || fail "it ended with $?: $(cat err)"
nothing_left
for engine in goblin rocksdb; do
    [ "$(rows $engine)" -eq 9 ] || fail "$engine has $(rows $engine) rows, not 3 steps of 3 workloads"
done
for step in fillseq revrangeww overwrite; do
    [ "$(grep -cF "\"step\": \"$step\"" kv.json)" -eq 6 ] || fail "$step is not there 6 times"
    holds out "$step"
done
grep -q '"version": "[0-9.]*"' kv.json || fail 'RocksDB does not tell its version'
grep -q '"ops": 0,' kv.json && fail 'a step did nothing'
python3 -c '
import json
rows = json.load(open("kv.json"))
for row in rows:
    assert abs(row["qps"] * row["seconds"] / row["ops"] - 1) < 0.1, row
    assert (row["write_amp"] is None) == (row["puts"] == 0), row
    assert row["space_amp"] > 0.3, row
' || fail 'figures contradict each other'

# ---- two builds ----------------------------------------------------------------------------------
kv --workload iodir --steps fillseq,readww --engines rocksdb --rocksdb-lib librocksdb.so.7.8 \
    --rocksdb-lib again=librocksdb.so.7.8 >out 2>err || fail "builds: $(cat err)"
[ "$(rows rocksdb)" -eq 4 ] || fail "two builds of rocksdb have $(rows rocksdb) rows, not 4"
[ "$(grep -c '"version": "[0-9.]* again"' kv.json)" -eq 2 ] || fail 'a build has lost its label'

# ---- every step ----------------------------------------------------------------------------------
steps=fillrandom,$("$GOBLIN_BENCH" kv --help | sed -n '/^Steps:/,/^$/s/^  \([a-z]*\) .*/\1/p' |
    grep -v '^fill' | paste -sd,)
kv --workload byrx --steps "$steps,overwrite" --threads 2 --engines rocksdb >out 2>err ||
    fail "all steps ended with $?: $(cat err)"
nothing_left
holds kv.json '"step": "ycsbf"'
holds kv.json '"step": "overwrite#2"'

# ---- what goes wrong is explained ----------------------------------------------------------------
refuses() { # exit code, text, flags...
    local code=$1 text=$2 got
    shift 2
    kv "$@" >out 2>err
    got=$?
    [ "$got" -eq "$code" ] || fail "'$*' ended with $got, not $code"
    holds err "$text"
    nothing_left
}
refuses 2 '--engines: "nosuch" is no engine' --engines goblin,nosuch
refuses 2 'must fill' --steps readww
refuses 1 '--rocksdb-lib' --rocksdb-lib ./nosuch.so
refuses 1 'give less data' --keys 9G
refuses 1 'RocksDB library lacks' --rocksdb-lib libm.so.6 --engines rocksdb

# ---- peers that are installed ----------------------------------------------------------------------
for engine in leveldb lmdb; do
    if /sbin/ldconfig -p | grep -q "lib$engine"; then
        kv --workload byrx,iodir --steps "$steps,overwrite" --engines $engine >out 2>err ||
            fail "$engine ended with $?: $(cat err)"
        holds err "$engine does no direct I/O"
        grep -qF '"workload": "iodir"' kv.json && fail "$engine has done direct I/O"
        holds kv.json '"step": "fwdrange"'
    else
        echo "skipped: there is no lib$engine"
        refuses 1 "--$engine-lib" --engines $engine
    fi
done

# ---- ended from outside --------------------------------------------------------------------------
"$GOBLIN_BENCH" kv --dir scratch --keys 2000 --duration 1000 >out 2>err &
pid=$!
for _ in $(seq 200); do
    [ -z "$(ls scratch 2>/dev/null)" ] || break
    sleep 0.05
done
kill -TERM "$pid"
wait "$pid"
[ $? -eq 1 ] || fail 'an interrupted run does not end with 1'
holds err interrupted
nothing_left

[ "$failures" -eq 0 ] || exit 1

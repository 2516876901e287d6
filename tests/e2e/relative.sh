#!/usr/bin/env bash
# goblin-bench relative over results of kv and of db_bench: ratios, marks, exit codes, plots.
set -uo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
    failures=$((failures + 1))
    echo "FAILED: $*"
}

relative() { # exit code, arguments...
    local code=$1 got
    shift
    "$GOBLIN_BENCH" relative "$@" >out 2>err
    got=$?
    [ "$got" -eq "$code" ] || fail "'relative $*' ended with $got, not $code: $(cat err)"
}

holds() { # file, pattern
    grep -qE -- "$2" "$1" || fail "$1 does not hold '$2': $(cat "$1")"
}

row() { # engine, version, step, qps
    printf '{"engine":"%s","version":"%s","workload":"byrx","step":"%s","qps":%s}' "$@"
}
echo "[$(row goblin 1 readww 100),$(row goblin 1 overwrite 100)]" >base.json
echo "[$(row goblin 1 readww 104),$(row goblin 1 overwrite 102)]" >again.json
echo "[$(row goblin 2 readww 150),$(row goblin 2 overwrite 80),$(row goblin 2 overwrite 90)]" >new.json
echo "[$(row goblin 2 readww 150),$(row goblin 2 overwrite 97)]" >good.json
cat >log <<'END'
RocksDB:    version 6.29.5
readwhilewriting :  80.3 micros/op 12447 ops/sec 1.0 seconds 12999 operations;
END
sed 's/6.29.5/10.8.0/; s/12447/13692/' log >log2

# ---- what is slower beyond the threshold ends with 3 ----------------------------------------------
relative 3 base.json,again.json new.json
holds out '^readww +102 +1\.00 \(0\.98\.\.1\.02\) +1\.47 '
holds out '^overwrite +101 .* 0\.84 \(0\.79\.\.0\.89\) ! *$'
relative 0 base.json,again.json new.json --threshold 20
relative 0 base.json good.json
relative 3 base.json good.json --threshold 1
holds out ' 0\.97 !\?'
relative 0 new.json base.json --base 'goblin 1' --threshold 20

# ---- db_bench's output ---------------------------------------------------------------------------
relative 0 log log2 --markdown
holds out '^\| db_bench \| base ops/s \| rocksdb 6\.29\.5 \| rocksdb 10\.8\.0 \|$'
holds out '^\| readww \| 12447 \| 1\.00 \| 1\.10 \|$'

# ---- files ---------------------------------------------------------------------------------------
relative 3 base.json new.json --out results
holds results/relative.md '^\| overwrite \| 100 \| 1\.00 \| \*\*0\.85'
holds results/relative_byrx.dat '^"overwrite" 1\.0000 1\.0000 1\.0000 0\.8500 0\.8000 0\.9000$'
if command -v gnuplot >/dev/null; then
    [ -s results/relative_byrx.svg ] || fail 'there is no plot'
    holds results/relative.md '\(relative_byrx\.svg\)'
fi

# ---- what goes wrong is explained ----------------------------------------------------------------
echo nothing >bad
relative 2
holds err 'name 1 to'
relative 2 base.json new.json --threshold 200
holds err 'threshold'
relative 1 nosuch.json new.json
holds err 'nosuch.json: No such file'
relative 1 base.json bad
holds err 'bad: it is neither'
relative 1 base.json
holds err 'no step was measured'
relative 1 base.json new.json --base rocksdb
holds err 'no column begins with "rocksdb"'

[ "$failures" -eq 0 ] || exit 1

#!/usr/bin/env bash
# goblin-bench net against the servers that are installed: values come back right, figures are there
# and make sense, and neither data nor processes are left behind. Skipped without memcached.
set -uo pipefail
if ! PATH=$PATH:/usr/sbin command -v memcached >/dev/null; then
    echo 'skipped: memcached is not installed'
    exit 77
fi
work=$(mktemp -d "${TMPDIR:-/var/tmp}/goblin-net-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
    failures=$((failures + 1))
    echo "FAILED: $*"
}

net() {
    "$GOBLIN_BENCH" net --dir scratch --rounds 1 --duration 0.1 --scale 0.02 "$@"
}

holds() { # file, fixed text
    grep -qF -- "$2" "$1" || fail "$1 does not hold '$2'"
}

# Servers begin in this directory.
nothing_left() {
    local place
    [ ! -d scratch ] || [ -z "$(ls scratch)" ] || fail "scratch still holds $(ls scratch)"
    for place in $(find /proc -maxdepth 2 -name cwd -lname "$work*" 2>/dev/null); do
        case $(cat "${place%cwd}comm" 2>/dev/null) in
        memcached | nginx | varnishd | cache-main | goblin*) fail "a server is left: $place" ;;
        esac
    done
}

# The figures of a name in net.json, one a line.
figures() {
    sed -n "s/^ *\"$1\": \([-0-9.e]*\),\{0,1\}\$/\1/p" net.json
}

# Of one row: case, work, peer, name.
figure() {
    awk -v case_name="\"case\": \"$1\"" -v work="\"work\": \"$2\"" -v peer="\"peer\": \"$3\"" \
        -v name="\"$4\":" '
        /"case":/ { here = index($0, case_name) }
        /"work":/ { here = here && index($0, work) }
        /"peer":/ { here = here && index($0, peer) }
        here && $1 == name { sub(/,$/, "", $2); print $2; exit }' net.json
}

all_zero() {
    local name
    for name in "$@"; do
        figures "$name" | grep -qvx 0 && fail "$name is not 0: $(figures "$name" | tr '\n' ' ')"
    done
}

above() { # case, work, peer, name, least
    figure "$1" "$2" "$3" "$4" | awk -v least="$5" '{ n++; if (!($1 > least)) exit 1 }
        END { if (n != 1) exit 1 }' || fail "$1, $2, $3: $4 is '$(figure "$1" "$2" "$3" "$4")'"
}

# ---- memcached -----------------------------------------------------------------------------------
net --cases small,ram,burst,mixed --peers memcached,extstore --rounds 2 --json net.json \
    --out results >out 2>err || fail "the run ended with $?: $(cat err)"
nothing_left
all_zero wrong errors unanswered broken
for name in get set 'get, pipelined' 'set, pipelined' 'get of 16 keys' 'get, open loop'; do
    above small "$name" memcached ops_s 100
    above small "$name" memcached requests 10
    holds results/net.md "| $name | memcached |"
done
above small get memcached mean 0
above small get memcached rss_bytes 1000000
above ram check memcached ram_per_object_bytes 1000
[ "$(figure ram check memcached objects)" = 10000 ] || fail 'ram did not check 10,000 objects'
[ "$(figure ram check memcached lost)" = 0 ] || fail 'memcached lost what fits its memory'
[ "$(figure burst fill extstore sets)" = 800 ] || fail 'the burst was not of 800 sets'
above mixed get memcached got_bytes 10000000
for file in net.md net_small.dat net_small_latency.dat net_burst.dat; do
    [ -s "results/$file" ] || fail "there is no $file"
done
if command -v gnuplot >/dev/null; then
    for plot in net_small net_small_latency net_mixed; do
        [ -s "results/$plot.svg" ] || fail "there is no $plot.svg"
        holds results/net.md "($plot.svg)"
    done
fi
holds out 'lost 0 of 10000'

# ---- a wire --------------------------------------------------------------------------------------
net --cases link --peers null --json net.json >out 2>err || fail "the wire ended with $?: $(cat err)"
nothing_left
if grep -q 'left out: link' err; then
    echo "skipped: $(grep 'left out' err)"
else
    all_zero wrong errors unanswered misses
    above link get null got_bytes 100000
fi

# ---- files ---------------------------------------------------------------------------------------
if PATH=$PATH:/usr/sbin command -v nginx >/dev/null; then
    net --cases static,large --peers nginx,varnish --json net.json >out 2>err ||
        fail "the run over HTTP ended with $?: $(cat err)"
    nothing_left
    all_zero wrong errors unanswered
    above static get nginx got_bytes 100000
    above large '512 MiB' nginx hits 10
    if PATH=$PATH:/usr/sbin command -v varnishd >/dev/null; then
        above static get varnish got_bytes 100000
    else
        echo 'skipped: varnish is not installed'
    fi
else
    echo 'skipped: nginx is not installed'
fi

# ---- goblin --------------------------------------------------------------------------------------
serves() { # protocol
    "$GOBLIN" serve --check-config --store "$work/none" "--$1" 127.0.0.1:0 >/dev/null 2>&1
}
if serves memcache; then
    net --cases small,ram,burst,mixed --peers goblin --json net.json >out 2>err ||
        fail "goblin's run ended with $?: $(cat err)"
    nothing_left
    all_zero wrong errors unanswered broken lost refused
    above small get goblin ops_s 100
    above mixed get goblin got_bytes 10000000
    above ram check goblin ram_per_object_bytes 500
else
    echo 'skipped: this goblin does not speak memcached'
fi
if serves memcache && serves http; then
    # A sanitizer's own memory does not fit into the cgroup that `static` makes.
    static=static,
    ! grep -q __asan_init "$GOBLIN_BENCH" || static=
    net --cases ${static}large,link --peers goblin,null --json net.json >out 2>err ||
        fail "goblin's run over HTTP ended with $?: $(cat err)"
    nothing_left
    all_zero wrong errors unanswered broken lost refused
    [ -z "$static" ] || above static get goblin got_bytes 100000
    above large '512 MiB' goblin hits 10
    above large "512 MiB, memcached's" goblin hits 10
else
    echo 'skipped: this goblin does not serve HTTP'
fi

# ---- what goes wrong is explained ----------------------------------------------------------------
refuses() { # exit code, text, flags...
    local code=$1 text=$2 got
    shift 2
    net "$@" >out 2>err
    got=$?
    [ "$got" -eq "$code" ] || fail "'$*' ended with $got, not $code"
    holds err "$text"
    nothing_left
}
refuses 2 '"nosuch" is no case' --cases small,nosuch
refuses 2 'ram is named twice' --cases ram,ram
refuses 2 '"squid" is no peer' --peers squid
refuses 2 'each needs one of the --connections' --threads 3 --connections 2
refuses 2 '--scale' --scale 0
refuses 1 'none of its peers' --cases small --peers memcached --memcached ./nosuch
if [ "$(df -k --output=avail . | tail -n 1)" -lt 1000000000 ]; then
    refuses 1 'give less data' --cases ram --scale 100 --peers memcached
fi
refuses 1 'memcached ended before it listened' --cases small --peers memcached \
    --memcached "$(command -v false)"
# One case that fails does not keep the next from being measured.
net --cases small,link --peers memcached,null --memcached "$(command -v false)" --duration 0.1 \
    >out 2>err
[ $? -eq 1 ] || fail 'a case that failed is forgotten'
holds err 'memcached ended before it listened'
grep -q 'left out: link' err || grep -q '^link  *get  *null' out || fail 'the second case was not run'
nothing_left
"$GOBLIN_BENCH" net --duration 1 >out 2>err
[ $? -eq 2 ] || fail 'no --dir is not refused'
holds err '--dir is missing'
"$GOBLIN_BENCH" net --list >out 2>err || fail "--list ended with $?"
[ "$(wc -l <out)" -eq 8 ] || fail "--list does not name eight cases: $(cat out)"

# ---- ended from outside --------------------------------------------------------------------------
"$GOBLIN_BENCH" net --dir scratch --scale 0.02 --cases small --peers memcached --duration 100 \
    >out 2>err &
pid=$!
for _ in $(seq 200); do
    ! grep -q 'small *fill' err || break
    sleep 0.05
done
kill -TERM "$pid"
wait "$pid"
[ $? -eq 1 ] || fail 'an interrupted run does not end with 1'
holds err interrupted
nothing_left

[ "$failures" -eq 0 ] || exit 1

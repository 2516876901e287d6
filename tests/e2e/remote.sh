#!/usr/bin/env bash
# The verbs that ask a running server: values there and back, keys of any bytes, refusals, faults.
set -uo pipefail
# shellcheck source=tests/e2e/lib_http.sh
. "$(dirname "$0")/lib_http.sh"
need curl

run() { # code, what is said or printed ('': nothing), verb and its operands...
    local code=$1 wanted=$2 got=0
    shift 2
    checks=$((checks + 1))
    "$GOBLIN" "$@" >out 2>said || got=$?
    [ "$got" = "$code" ] || fail "$* ended with $got, not $code: $(cat said)"
    cat out said >both
    if [ -n "$wanted" ]; then
        grep -qF -- "$wanted" both || fail "$*: no '$wanted' in: $(head -c 600 both)"
    elif [ -s both ]; then
        fail "$* said: $(head -c 600 both)"
    fi
}

serve --http "$work/socket"
http=$(sed -n 's/^http \(127.*\)/\1/p' ports)
: >empty
head -c 5000 /dev/urandom >small
head -c 9000000 /dev/urandom >large

for file in empty small large; do
    for place in "$http" "$work/socket"; do
        run 0 '' put --server "$place" "dir/$file" "$file"
        run 0 '' get "dir/$file" -o copy --server "$place"
        same copy "$file"
        run 0 '' put --server "$place" "piped $file" - <"$file"
        cat "$file" | "$GOBLIN" put --server "$place" "piped $file" - || fail "a pipe, $file"
        "$GOBLIN" get --server "$place" "piped $file" >copy || fail "get of a pipe's $file"
        same copy "$file"
    done
    run 0 "size      $(stat -c %s "$file")" stat --server "$http" "dir/$file"
done

# Keys: what the server keeps for itself, what means something in a URL, bytes that are no text.
for key in healthz metrics / . .. 'a?b#c%41' '%' 'ä' 'a//b/../c' ' '; do
    run 0 '' put --server "$http" -- "$key" small
    run 0 '' get --server "$http" -o copy -- "$key"
    same copy small
done
run 0 '' put --server "$http" --hex 0001ff0a2f small
run 0 '' get --server "$http" --hex 0001ff0a2f -o copy
same copy small
run 0 'key       \x00\x01\xff\x0a/' stat --server "$http" --hex 0001ff0a2f

# Parts.
run 0 '' get --server "$http" dir/large --range 1000-4999999 -o copy
cmp copy <(head -c 5000000 large | tail -c 4999000) || fail 'a range'
run 0 '' get --server "$http" dir/small --range 4990- -o copy
cmp copy <(tail -c 10 small) || fail 'a range to the end'
run 0 '' get --server "$http" dir/small --range -7 -o copy
cmp copy <(tail -c 7 small) || fail 'the last bytes'
run 1 'no byte is in the range' get --server "$http" dir/small --range 5000-
"$GOBLIN" get --server "$http" dir/large | head -c 10 >copy || fail 'a pipe that has seen enough'

# Conditions, expiries, durability.
run 1 'the condition does not hold' put --server "$http" dir/small empty --if-absent
run 1 'the condition does not hold' put --server "$http" none empty --if-present
run 0 '' put --server "$http" dir/small large --if-present --ttl 1h --durability synced
run 0 GMT stat --server "$http" dir/small
grep -q '^expires .*GMT$' out || fail "no expiry: $(cat out)"
run 0 'expires   never' stat --server "$http" dir/large

# What is not there; all keys are tried.
run 1 "'none': no such object" get --server "$http" none -o kept
[ ! -e kept ] || fail 'a miss left a file'
run 1 "'none': no such object" rm --server "$http" none dir/small
run 1 "'dir/small': no such object" stat --server "$http" dir/small

# Lists, in pages of a thousand.
: >upload.config
for i in $(seq 1000 2499); do
    printf 'next\nsilent\nupload-file = "empty"\nurl = "http://%s/many/%d"\n' "$http" "$i"
done | sed 1d >upload.config
curl -sS -K upload.config || fail 'storing many'
run 0 many/1000 ls --server "$http" --prefix many/
same out <(seq 1000 2499 | sed 's/^/many\//')
run 0 many/1006 ls --server "$work/socket" --prefix many/ --limit 7
[ "$(wc -l <out)" = 7 ] || fail "--limit: $(cat out)"
run 0 0001ff0a2f ls --server "$http" --hex --prefix 0001
run 0 'a?b#c%41' ls --server "$http" --prefix 'a?'
run 0 '' ls --server "$http" --prefix nothing
run 2 '--json is for a store' ls --server "$http" --json

# What a server cannot do, and what it does not let one do.
run 2 '--meta is for a store' get --server "$http" dir/large --meta
run 2 '--flags is for a store' put --server "$http" dir/large small --flags 1
run 2 '--json is for a store' stat --server "$http" dir/large --json
run 2 'no such option' touch --server "$http" dir/large --forever
run 2 'too few operands' get --server "$http"
run 2 'TLS is not spoken' get --server "https://$http" key
run 3 'Connection refused' get --server 127.0.0.1:1 key
run 3 'absent: No such file' put --server "$http" key absent
printf 'read a-token-that-may-read\n' >tokens
echo a-token-that-may-read >token
serve --http-tokens tokens --max-value 1M
run 3 'the server answers 401' get --server "$http" dir/large
run 3 'the server answers 401' ls --server "$http"
run 0 dir/large ls --server "$http" --token-file token
run 0 '' get --server "$http" dir/large --token-file token -o copy
same copy large
run 3 'the server answers 403' rm --server "$http" dir/large --token-file token
serve --max-value 1M
run 3 'the server answers 413' put --server "$http" dir/large large
run 3 'the server answers 413' put --server "$http" dir/large - <large
cat large | "$GOBLIN" put --server "$http" dir/large - 2>said && fail 'a pipe of too much was stored'
run 0 '' get --server "$http" dir/large -o copy
same copy large

# A value that is cut off stays out of the file, and out of the server.
mkfifo pipe
"$GOBLIN" put --server "$http" cut pipe 2>said &
putter=$!
exec 4>pipe
head -c 300000 large >&4
kill "$putter" && wait "$putter"
exec 4>&-
run 1 'no such object' get --server "$http" cut
finish

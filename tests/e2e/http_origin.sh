#!/usr/bin/env bash
# Objects that an origin fills in: what is kept and for how long, what is asked again, what everybody
# gets when the origin fails, and that a thousand clients are one request to it.
set -uo pipefail
lib=$(cd "$(dirname "$0")/../lib" && pwd)
# shellcheck source=tests/e2e/lib_http.sh
. "$(dirname "$0")/lib_http.sh"
need curl
need python3

origin=
end_origin() {
    if [ -n "$origin" ]; then
        kill -9 "$origin" 2>/dev/null
        wait "$origin" 2>/dev/null
        origin=
    fi
}
trap 'end_server; end_origin; rm -rf "$work"' EXIT

start_origin() { # certificate and key, if it is to speak TLS
    end_origin
    rm -f port
    python3 "$lib/origin.py" port "$@" >origin.log 2>&1 &
    origin=$!
    for _ in $(seq 200); do
        [ -s port ] && break
        kill -0 "$origin" 2>/dev/null || break
        sleep 0.05
    done
    [ -s port ] || { echo "the origin did not start: $(cat origin.log)"; exit 1; }
    there=http://127.0.0.1:$(cat port)
}

begin() { # options... of a server with an empty store
    end_server
    rm -rf store
    serve --origin "$there" "$@"
    url=http://$http
    alone=$(network)
}

network() { # bytes in use
    curl -sS -m 10 "$url/metrics" | sed -n 's/^goblin_server_network_bytes //p'
}

quiet() {
    [ "$(network)" -eq "$alone" ]
}

# Until what was begun is stored: who asks before follows it, stale or not.
rest() {
    await quiet
}

set_origin() { # NAME=VALUE&…
    curl -sS -m 10 -X PUT "$there/_set?$1"
}

asked=0
asks() { # how many requests the origin has had since the last time
    local now
    checks=$((checks + 1))
    now=$(curl -sS -m 10 "$there/_count")
    [ $((now - asked)) -eq "$1" ] ||
        fail "line ${BASH_LINENO[*]}: the origin was asked $((now - asked)) times, not $1"
    asked=$now
}

counter() { # name: of the server's metrics
    curl -sS -m 10 "$url/metrics" | sed -n "s/^goblin_server_origin_$1_total //p"
}

await() { # command...: until it succeeds
    for _ in $(seq 400); do
        "$@" && return
        sleep 0.05
    done
    fail "line ${BASH_LINENO[0]}: in 20 s it did not come true: $*"
}

counts() { # name, number
    [ "$(counter "$1")" -eq "$2" ]
}

# Twice the same: how many requests that are to the origin.
twice() { # number, curl's arguments...
    local number=$1
    shift
    expect 200 "$@"
    cp body first
    rest
    expect 200 "$@"
    cmp -s first body || fail "line ${BASH_LINENO[0]}: not the same twice"
    asks "$number"
}

start_origin
begin

# ---- what is kept --------------------------------------------------------------------------------
twice 1 "$url/max-age?cc=max-age=100"
has Content-Type text/x-pattern
has Cache-Control max-age=100
[[ $(field Via) == '1.1 goblin-'* ]] || fail "Via is '$(field Via)'"
has X-Hop ''
has ETag ''
twice 1 "$url/s-maxage?cc=s-maxage=100,max-age=0"
twice 1 "$url/expires?expires=100"
[[ $(field Expires) == *GMT ]] || fail "Expires is '$(field Expires)'"
twice 2 "$url/expired?expires=-100"
twice 1 "$url/heuristic?lm=1"
has Last-Modified 'Sun, 13 Sep 2020 12:26:40 GMT'
twice 2 "$url/nothing-said"
twice 2 "$url/no-store?cc=no-store,max-age=100"
twice 2 "$url/private?cc=private,max-age=100"
twice 2 "$url/cookie?cc=max-age=100&cookie=1"
has Set-Cookie a=b
has X-Hop ''
twice 2 "$url/any?cc=max-age=100&vary=*"
twice 1 "$url/young?cc=max-age=100&h=Age:50"
[ "$(field Age)" -ge 50 ] || fail "Age is $(field Age)"
twice 2 "$url/old?cc=max-age=100&h=Age:200"
expect 404 "$url/missing?status=404"
expect 404 "$url/missing?status=404"
expect 302 "$url/moved?status=302&h=Location:/elsewhere"
has Location /elsewhere
asks 3

# ---- sizes ---------------------------------------------------------------------------------------
for size in 0 1 4096 65536 262144 262145 5000000; do
    twice 1 "$url/size?cc=max-age=100&size=$size"
    [ "$(stat -c %s body)" -eq "$size" ] || fail "of $size bytes came $(stat -c %s body)"
    twice 1 "$url/size?cc=max-age=100&chunked=1&size=$size"
    [ "$(stat -c %s body)" -eq "$size" ] || fail "of $size bytes came $(stat -c %s body), chunked"
    twice 2 "$url/size?cc=no-store&chunked=1&size=$size"
done

# ---- paths and keys ------------------------------------------------------------------------------
expect 200 "$url/a%20b?cc=max-age=100&size=9"
checks=$((checks + 1))
curl -sS "$there/_last" | grep -q '^GET /a%20b?cc=max-age=100&size=9 HTTP' || fail 'another path'
expect 200 "$url/a%20b?cc=max-age=100&size=10"
[ "$(stat -c %s body)" -eq 10 ] || fail 'the query does not tell objects apart'
expect 200 "$url/a%20b%3Fcc=max-age=100&size=9"
[ "$(stat -c %s body)" -eq 100 ] || fail 'a ? in a path is taken for a query'
expect 404 --path-as-is "$url/x/../secret"
expect 404 --path-as-is "$url/x/%2e%2E/secret"
asks 3
expect 204 -X DELETE "$url/a%20b?cc=max-age=100&size=9"
expect 200 "$url/a%20b?cc=max-age=100&size=9"
asks 1
echo mine >mine
expect 201 -T mine "$url/mine"
expect 200 "$url/mine"
same body mine
asks 0

# ---- what the client says ------------------------------------------------------------------------
expect 504 -H 'Cache-Control: only-if-cached' "$url/never-seen?cc=max-age=100"
asks 0
expect 200 -H 'Cache-Control: no-store' "$url/unstored?cc=max-age=100&etag=1"
asks 1
twice 1 "$url/unstored?cc=max-age=100&etag=1"
expect 200 -H 'Cache-Control: no-cache' "$url/unstored?cc=max-age=100&etag=1"
asks 1
twice 2 -H 'Authorization: Bearer x' "$url/authorized?cc=max-age=100"
checks=$((checks + 1))
curl -sS "$there/_last" | grep -q '^Authorization: Bearer x' || fail 'the origin does not hear who asks'
twice 1 -H 'Authorization: Bearer x' "$url/authorized?cc=public,max-age=100"
twice 1 "$url/conditions?cc=max-age=100&etag=1&lm=1"
expect 304 -H 'If-None-Match: "v1"' "$url/conditions?cc=max-age=100&etag=1&lm=1"
expect 304 -H 'If-Modified-Since: Sun, 13 Sep 2020 12:26:40 GMT' \
    "$url/conditions?cc=max-age=100&etag=1&lm=1"
asks 0
expect 304 -H 'If-None-Match: "v1"' "$url/new?cc=max-age=100&etag=1"
expect 412 -H 'If-Match: "v2"' "$url/newer?cc=max-age=100&etag=1"
expect 200 "$url/new?cc=max-age=100&etag=1"
asks 2
expect 206 -r 1000-1999 "$url/range?cc=max-age=100&size=700000"
has Content-Range 'bytes 1000-1999/700000'
cp body part
expect 200 "$url/range?cc=max-age=100&size=700000"
cmp -n 1000 -i 1000:0 body part || fail 'another range'
expect 416 -r 700000- "$url/no-range?cc=max-age=100&size=700000"
has Content-Range 'bytes */700000'
expect 200 -I "$url/head?cc=max-age=100&size=700000"
has Content-Length 700000
asks 3
expect 200 "$url/head?cc=max-age=100&size=700000"
asks 0
name=$(field Via)
expect 508 -H "Via: 1.0 other, $name" "$url/loop"
asks 0

# ---- variants ------------------------------------------------------------------------------------
for language in de en de; do
    expect 200 -H "Accept-Language: $language" "$url/vary?cc=max-age=100&vary=Accept-Language"
    grep -q "^/vary$language" body || fail "the variant of another language"
    has Vary Accept-Language
done
expect 200 "$url/vary?cc=max-age=100&vary=Accept-Language"
asks 3
for number in $(seq 150); do
    curl -sS -m 20 -o /dev/null -H "Accept-Language: x$number" \
        "$url/many?cc=max-age=100&vary=Accept-Language"
done
asks 150
checks=$((checks + 1))
kept=$(curl -sS "$url/?prefix=many" | grep -o '"key"' | wc -l)
[ "$kept" -le 65 ] || fail "$kept objects for one key"

# ---- validation ----------------------------------------------------------------------------------
written() {
    curl -sS -m 10 "$url/metrics" | sed -n 's/^goblin_device_write_bytes_total //p'
}
expect 200 "$url/valid?cc=max-age=0&etag=1&size=9000000"
cp body valid
rest
before=$(written)
expect 200 "$url/valid?cc=max-age=0&etag=1&size=9000000"
same body valid
asks 2
checks=$((checks + 1))
[ $(($(written) - before)) -lt 4000000 ] || fail "a 304 wrote $(($(written) - before)) bytes"
twice 2 "$url/valid-by-date?cc=max-age=0&lm=1"
twice 2 "$url/no-cache?cc=no-cache&etag=1"
before=$(counter revalidated)
set_origin 'cc=max-age=100,x-new'
expect 200 "$url/valid?cc=max-age=0&etag=1&size=9000000"
same body valid
rest
expect 200 "$url/valid?cc=max-age=0&etag=1&size=9000000"
has Cache-Control max-age=100,x-new
same body valid
asks 1
[ "$(counter revalidated)" -eq $((before + 1)) ] || fail 'not counted'
set_origin 'cc='
expect 200 "$url/changes?cc=max-age=0&etag=1"
rest
set_origin version=2
expect 200 "$url/changes?cc=max-age=0&etag=1"
grep -q '^/changes2' body || fail 'what was stale is still there'
has ETag '"v2"'
set_origin version=1
asks 2

# ---- stale ---------------------------------------------------------------------------------------
behind="$url/behind?cc=max-age=0,stale-while-revalidate=100&etag=1"
expect 200 "$behind"
rest
set_origin 'version=2&hold=1'
expect 200 "$behind"
grep -q '^/behind1' body || fail 'somebody waited for the origin'
expect 200 "$behind"
set_origin hold=0
is_new() { curl -sS -m 20 "$behind" | grep -q '^/behind2'; }
await is_new
set_origin version=1
asked=$(curl -sS "$there/_count")
expect 200 "$url/error?cc=max-age=0,stale-if-error=100&etag=1"
expect 200 "$url/strict?cc=max-age=0,stale-if-error=100,must-revalidate&etag=1"
expect 200 "$url/brittle?cc=max-age=0&etag=1"
rest
set_origin fail=1
expect 200 "$url/error?cc=max-age=0,stale-if-error=100&etag=1"
expect 500 "$url/strict?cc=max-age=0,stale-if-error=100,must-revalidate&etag=1"
expect 500 "$url/brittle?cc=max-age=0&etag=1"
expect 200 -H 'Cache-Control: stale-if-error=100' "$url/brittle?cc=max-age=0&etag=1"
set_origin 'fail=0&drop=1'
expect 200 "$url/error?cc=max-age=0,stale-if-error=100&etag=1"
expect 502 "$url/strict?cc=max-age=0,stale-if-error=100,must-revalidate&etag=1"
expect 502 "$url/never-seen?cc=max-age=100"
set_origin drop=0
[ "$(counter stale)" -ge 5 ] || fail "$(counter stale) stale answers were counted"
asked=$(curl -sS "$there/_count")

# ---- many, slow, and gone ------------------------------------------------------------------------
begin --memory 256M --network-memory 128M
asked=$(curl -sS "$there/_count")
set_origin hold=1
before=$(counter collapsed)
clients=()
for group in 1 2 3 4; do
    for number in $(seq 250); do
        printf 'url = "%s/crowd?cc=max-age=100&size=400000"\noutput = "crowd.%s.%s"\n' "$url" \
            "$group" "$number"
    done >"crowd.$group"
    curl -sS -m 100 -Z --parallel-max 250 --parallel-immediate -K "crowd.$group" 2>>crowd.err &
    clients+=($!)
done
await counts collapsed $((before + 999))
set_origin hold=0
wait "${clients[@]}"
asks 1
checks=$((checks + 1))
[ "$(cat crowd.*.* | sha256sum)" = "$(for _ in $(seq 1000); do cat crowd.1.1; done | sha256sum)" ] ||
    fail "a thousand clients did not get the same: $(sort crowd.err | uniq -c | head -3)"
[ "$(stat -c %s crowd.1.1)" -eq 400000 ] || fail "$(stat -c %s crowd.1.1) bytes of 400000"
rm crowd.*

set_origin hold=1
before=$(counter collapsed)
clients=()
for number in $(seq 20); do
    curl -sS -m 100 -o "alone.$number" "$url/alone?cc=private&size=1000" &
    clients+=($!)
done
await counts collapsed $((before + 19))
set_origin hold=0
wait "${clients[@]}"
asks 20

curl -sS -m 100 --limit-rate 4M -o slow "$url/slow?cc=max-age=100&size=24000000" &
slow=$!
stored() { [ "$(curl -sS -m 10 "$url/?prefix=slow" | grep -c slow)" -gt 0 ]; }
await stored
checks=$((checks + 1))
kill -0 "$slow" || fail 'the slow client was not slow, or held up the fill'
expect 200 "$url/slow?cc=max-age=100&size=24000000"
wait "$slow" || fail "the slow client: $?"
same slow body
asks 1

curl -sS -m 100 --limit-rate 8M -o slow "$url/slow?cc=no-store&size=16000000" || fail "slow: $?"
expect 200 "$url/slow?cc=no-store&size=16000000"
same slow body
asks 2

curl -sS -m 0.5 -o /dev/null "$url/left?cc=max-age=100&size=6000000&slow=0.02" 2>/dev/null
expect 200 "$url/left?cc=max-age=100&size=6000000&slow=0.02"
[ "$(stat -c %s body)" -eq 6000000 ] || fail 'not all of it'
asks 1

ask "$url/cut?cc=max-age=100&size=5000000&cut=3000000"
grep -q 'curl: (18)' curl.err || fail "the client was not cut: $(cat curl.err)"
ask "$url/cut?cc=max-age=100&size=5000000&cut=3000000&chunked=1"
[ -s curl.err ] || fail 'the client was not cut'
ask "$url/cut?cc=max-age=100&size=5000000&cut=3000000"
asks 3

# ---- limits --------------------------------------------------------------------------------------
begin --origin-object 1M --origin-timeout 1500ms --origin-redirects 2 --origin-connections 2
asked=$(curl -sS "$there/_count")
twice 2 "$url/large?cc=max-age=100&size=2000000"
for _ in 1 2; do # a client that is behind when it proves too large has the origin asked twice
    expect 200 "$url/large?cc=max-age=100&size=2000000&chunked=1&etag=1"
    [ "$(stat -c %s body)" -eq 2000000 ] || fail 'not all of what is too large'
done
asked=$(curl -sS "$there/_count")
twice 1 "$url/small?cc=max-age=100&size=1000000"
twice 2 "$url/moved?status=302&h=Location:/elsewhere%3Fcc%3Dmax-age%3D100"
set_origin hold=1
expect 504 "$url/late?cc=max-age=100"
set_origin hold=0
ask "$url/stops?cc=max-age=100&size=900000&slow=4"
[ -s curl.err ] || fail 'an origin that stops in the middle was waited for'

# ---- a store that is full ------------------------------------------------------------------------
begin --store-mode store --store-size 64M
for number in $(seq 12); do
    curl -sS -m 100 -o /dev/null "$url/fill$number?cc=max-age=100&size=9000000&etag=1" ||
        fail "fill$number: $?"
done
expect 200 "$url/more?cc=max-age=100&size=9000000&etag=1"
[ "$(stat -c %s body)" -eq 9000000 ] || fail 'a full store fails the client'
expect 200 "$url/much?cc=max-age=100&size=90000000&etag=1"
[ "$(stat -c %s body)" -eq 90000000 ] || fail 'a full store fails the client'
[ "$(counter unstored)" -gt 0 ] || fail 'the store was not full'

# ---- the origin dies -----------------------------------------------------------------------------
begin
expect 200 "$url/kept?cc=max-age=100"
expect 200 "$url/stale?cc=max-age=0,stale-if-error=100"
rest
before=$(counter bytes)
curl -sS -m 60 -o dying "$url/dying?cc=max-age=100&size=30000000&slow=0.02" 2>dying.err &
client=$!
flows() { [ "$(counter bytes)" -gt $((before + 1000000)) ]; }
await flows
end_origin
checks=$((checks + 1))
wait "$client" && fail 'half an answer was taken for a whole one'
expect 200 "$url/kept?cc=max-age=100"
expect 200 "$url/stale?cc=max-age=0,stale-if-error=100"
expect 502 "$url/dying?cc=max-age=100&size=30000000&slow=0.02"

# ---- https ---------------------------------------------------------------------------------------
if command -v openssl >/dev/null; then
    openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 \
        -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 2>/dev/null
    start_origin cert.pem key.pem
    there=https://127.0.0.1:$(cat port)
    begin
    expect 502 "$url/a?cc=max-age=100"
    begin --origin-ca cert.pem
    expect 200 "$url/a?cc=max-age=100"
fi

# ---- options -------------------------------------------------------------------------------------
end_server
for bad in ftp://host/ 'http://host/?x' nonsense://; do
    checks=$((checks + 1))
    "$GOBLIN" serve --check-config --store store --http 127.0.0.1:0 --origin "$bad" 2>err &&
        fail "--origin $bad was taken"
    grep -q origin err || fail "--origin $bad: $(cat err)"
done
finish

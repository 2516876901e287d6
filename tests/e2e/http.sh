#!/usr/bin/env bash
# Objects over HTTP with curl and wget: stored, read, in parts, under conditions, listed, counted.
set -uo pipefail
# shellcheck source=tests/e2e/lib_http.sh
. "$(dirname "$0")/lib_http.sh"
need curl

serve --http-origins 'https://one.example https://two.example'
url=http://$http
head -c 100 /dev/urandom >tiny
head -c 150000 /dev/urandom >small
head -c 20000000 /dev/urandom >large

# ---- health --------------------------------------------------------------------------------------
expect 200 "$url/healthz"
expect 200 "$url/readyz"
expect 405 -X DELETE "$url/healthz"
has Allow 'GET, HEAD, OPTIONS'

# ---- there and back ------------------------------------------------------------------------------
for file in tiny small large; do
    expect 404 "$url/dir/$file"
    expect 201 -T "$file" "$url/dir/$file"
    expect 200 "$url/dir/$file"
    same body "$file"
    etag=$(field ETag)
    has Content-Type application/octet-stream
    has Accept-Ranges bytes
    expect 204 -T - "$url/dir/$file" <"$file" # in chunks
    [ "$(field ETag)" != "$etag" ] || fail 'a new version has the old tag'
    expect 200 "$url/dir/$file"
    same body "$file"
    expect 200 -I "$url/dir/$file"
    has Content-Length "$(stat -c %s "$file")"
done
expect 201 -X PUT -H 'Content-Length: 0' "$url/empty"
expect 200 "$url/empty"
[ ! -s body ] || fail 'nothing became something'
expect 204 -X DELETE "$url/empty"
expect 404 -X DELETE "$url/empty"

# ---- what is kept beside it ----------------------------------------------------------------------
expect 201 -T tiny -H 'Content-Type: text/plain; charset=utf-8' -H 'Content-Encoding: x-none' \
    -H 'Content-Language: de' -H 'Content-Disposition: attachment' -H 'X-Meta-Owner: me' \
    -H 'X-Other: no' -H 'Cache-Control: max-age=3600' "$url/kept"
expect 200 "$url/kept"
has Content-Type 'text/plain; charset=utf-8'
has Content-Encoding x-none
has Content-Language de
has Content-Disposition attachment
has X-Meta-Owner me
has X-Other ''
has Cache-Control 'max-age=3600'
[[ $(field Age) =~ ^[0-9]+$ ]] || fail "Age is '$(field Age)'"
[[ $(field Expires) == *GMT ]] || fail "Expires is '$(field Expires)'"
expect 201 -T tiny -H 'Cache-Control: max-age=3600' -H 'Goblin-TTL: 0' "$url/for-ever"
expect 200 "$url/for-ever"
has Expires ''
expect 400 -T tiny -H 'Goblin-TTL: soon' "$url/kept"
expect 400 -T tiny -H 'Goblin-Durability: perhaps' "$url/kept"
for durability in none written synced; do
    expect 204 -T tiny -H "Goblin-Durability: $durability" "$url/kept"
    expect 204 -T large -H "Goblin-Durability: $durability" "$url/dir/large"
done
expect 431 -T tiny -H "X-Meta-Long: $(printf 'x%.0s' {1..4100})" "$url/kept"

# ---- conditions ----------------------------------------------------------------------------------
expect 200 "$url/kept"
etag=$(field ETag)
modified=$(field Last-Modified)
expect 304 -H "If-None-Match: $etag" "$url/kept"
has ETag "$etag"
has Content-Length 100
expect 304 -H "If-Modified-Since: $modified" "$url/kept"
expect 200 -H "If-None-Match: \"other\"" -H "If-Modified-Since: $modified" "$url/kept"
expect 412 -H 'If-Match: "other"' "$url/kept"
expect 412 -T tiny -H 'If-None-Match: *' "$url/kept"
expect 412 -T tiny -H 'If-Match: "other"' "$url/kept"
expect 204 -T tiny -H "If-Match: \"other\", $etag" "$url/kept"
expect 412 -T tiny -H "If-Match: $etag" "$url/kept"
expect 412 -X DELETE -H "If-Match: $etag" "$url/kept"
expect 400 -T tiny -H "If-Match: ${etag//\"/}" "$url/kept"
expect 404 -X DELETE -H "If-Match: $etag" "$url/none"
expect 201 -T tiny -H 'If-None-Match: *' "$url/new"

# ---- parts ---------------------------------------------------------------------------------------
expect 206 -r 0-0 "$url/dir/large"
has Content-Range 'bytes 0-0/20000000'
expect 206 -r 5000000-14999999 "$url/dir/large"
cmp body <(tail -c +5000001 large | head -c 10000000) || fail 'a part differs'
expect 206 -r -1000 "$url/dir/large"
cmp body <(tail -c 1000 large) || fail 'the end differs'
expect 416 -r 20000000- "$url/dir/large"
has Content-Range 'bytes */20000000'
expect 206 -r 0-9,100-109,19999990- "$url/dir/large"
[ "$(grep -ac '^Content-Range: bytes ' body)" = 3 ] || fail 'three parts are not three'
expect 200 "$url/dir/large" -r 0-9 -H 'If-Range: "other"'
expect 200 -I "$url/dir/large"
expect 206 "$url/dir/large" -r 0-9 -H "If-Range: $(field ETag)"

# ---- names ---------------------------------------------------------------------------------------
expect 201 --path-as-is -T tiny "$url/../etc//./passwd"
expect 404 "$url/etc/passwd"
expect 200 --path-as-is "$url/../etc//./passwd"
expect 201 -T tiny "$url/a%00b%2Fc%ff%20"
expect 200 "$url/a%00b/c%FF%20"
expect 201 -T tiny "$url/%68ealthz"
expect 200 "$url/healthz"
[ "$(cat body)" = ok ] || fail 'an object stands in front of /healthz'
expect 400 "$url/a%2"
expect 414 "$url/$(printf 'k%.0s' {1..4097})"
expect 201 -T tiny "$url/$(printf 'k%.0s' {1..4096})"

# ---- lists ---------------------------------------------------------------------------------------
for i in $(seq 25); do
    expect 201 -T tiny "$url/list/$(printf %02d "$i")"
done
expect 200 "$url/?prefix=list/&limit=10"
has Content-Type application/json
[ "$(grep -o '"path":' body | wc -l)" = 10 ] || fail "a page of ten: $(cat body)"
grep -q '"next":"list/10"' body || fail "no next: $(cat body)"
expect 200 "$url/?prefix=list/&limit=10&after=list/20"
[ "$(grep -o '"path":' body | wc -l)" = 5 ] || fail "the last page: $(cat body)"
grep -q '"next"' body && fail 'more after the end'
expect 200 "$url/?prefix=a%00"
grep -q '"path":"a%00b/c%FF%20"' body || fail "an exact path: $(cat body)"
expect 200 "$url/?prefix=nothing"
[ "$(cat body)" = '{"objects":[]}' ] || fail "nothing: $(cat body)"
expect 400 "$url/?limit=0"
expect 400 "$url/?colour=red"

# ---- pages of other sites ------------------------------------------------------------------------
expect 200 -H 'Origin: https://two.example' "$url/for-ever"
has Access-Control-Allow-Origin https://two.example
has Vary Origin
expect 200 -H 'Origin: https://three.example' "$url/for-ever"
has Access-Control-Allow-Origin ''
expect 204 -X OPTIONS -H 'Origin: https://one.example' -H 'Access-Control-Request-Method: PUT' \
    "$url/for-ever"
has Access-Control-Allow-Methods 'GET, HEAD, PUT, DELETE'

# ---- metrics -------------------------------------------------------------------------------------
expect 200 "$url/metrics"
for name in goblin_objects goblin_gets_total goblin_server_requests_total \
    'goblin_request_seconds_count{op="get",tier="ram"}' 'goblin_server_closed_total{why="client"}'; do
    grep -qF "$name " body || fail "/metrics lacks $name"
done
grep -vE '^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{[^}]*\})? [0-9.e+-]+)$' body && fail 'not all is metrics'

# ---- wget goes on where it was cut off -----------------------------------------------------------
if command -v wget >/dev/null; then
    head -c 7000000 large >part
    wget -q -c -O part "$url/dir/large" || fail 'wget -c'
    same part large
else
    echo 'skipped: wget is not installed'
fi
if command -v aria2c >/dev/null; then
    aria2c -q -x 4 -s 4 -k 1M -o aria "$url/dir/large" || fail aria2c
    same aria large
else
    echo 'skipped: aria2c is not installed'
fi

# zsync asks for the blocks that it lacks, many ranges in one request.
if command -v zsyncmake >/dev/null; then
    zsyncmake -u "$url/dir/large" -o large.zsync large 2>/dev/null || fail zsyncmake
    { head -c 3000000 large; head -c 5000 /dev/urandom; tail -c +3005001 large | head -c 9000000
      head -c 4000 /dev/urandom; tail -c +12009001 large; } >seed
    zsync -q -i seed -o synced large.zsync >zsync.log 2>&1 || fail "zsync: $(tail -3 zsync.log)"
    same synced large
else
    echo 'skipped: zsync is not installed'
fi

# ---- by a unix socket, and by IPv6 ---------------------------------------------------------------
serve --http "$work/socket" --http '[::1]:0' --http-origins '*'
expect 201 -T large --unix-socket socket http://any/unix
expect 200 --unix-socket socket http://any/unix -H 'Origin: https://any.example'
same body large
has Access-Control-Allow-Origin '*'
expect 206 --unix-socket socket http://any/unix -r 5-14
six=$(grep -o '\[::1\].*' ports)
expect 200 "http://$six/unix"
same body large

# ---- and again -----------------------------------------------------------------------------------
serve --http-read-only --max-value 1M
url=http://$http
expect 200 "$url/dir/large"
same body large
expect 405 -T tiny "$url/dir/large"
has Allow 'GET, HEAD, OPTIONS'
expect 405 -X DELETE "$url/dir/large"
serve --max-value 1M
expect 413 -T large "http://$http/dir/large"
expect 201 -T small "http://$http/dir/other"
serve --http-map 'pics.example/=pictures/' --http-map '/files/=f:'
expect 201 -T tiny -H 'Host: pics.example:8080' "http://$http/cat"
expect 404 -T tiny "http://$http/cat"
expect 201 -T small "http://$http/files/cat"
expect 200 "http://$http/files/?prefix=c"
grep -q '"path":"cat"' body || fail "a mapped list: $(cat body)"
serve
expect 200 "http://$http/pictures/cat"
same body tiny
expect 200 "http://$http/f:cat"
same body small
finish

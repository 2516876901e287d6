#!/usr/bin/env bash
# Caches of others in front of the server: Varnish, and nginx with proxy_cache and slices. Bytes and
# ranges come through whole, a kept object is asked for again and found unchanged by 304, a changed
# one is fetched, HEAD has a length and no bytes, a PUT in chunks arrives, what is not there is 404.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/e2e/lib_http.sh
. "$here/lib_http.sh"
need curl
need python3
PATH=$PATH:/usr/sbin
cache=
end_cache() {
    if [ -n "$cache" ]; then
        kill "$cache" 2>/dev/null
        wait "$cache" 2>/dev/null
        cache=
    fi
}
trap 'end_cache; end_server; rm -rf "$work"' EXIT
chmod 755 "$work" # for a cache that gives up root

head -c 3000001 /dev/urandom >large
head -c 3000001 /dev/urandom >other
head -c 70001 /dev/urandom >small

serve --access-log access.log

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
answers() { # port
    for _ in $(seq 200); do
        curl -s -m 5 -o /dev/null "http://127.0.0.1:$1/none" && return 0
        kill -0 "$cache" 2>/dev/null || break
        sleep 0.05
    done
    fail "no answer: $(tail -n 5 cache.log)"
    return 1
}
# How often the server itself was asked for an object, and with which answer.
asked() { # method, key, status
    grep -c "$1.*$2.*$3" access.log
}

start_varnish() {
    front=127.0.0.1:$(free_port)
    cat >front.vcl <<VCL
vcl 4.1;
backend default { .host = "${http%:*}"; .port = "${http##*:}"; }
sub vcl_recv {
    if (req.method == "PUT" || req.method == "DELETE") { return (pass); }
}
sub vcl_backend_response {
    set beresp.ttl = 1s;
    set beresp.grace = 0s;
    set beresp.keep = 1h;
}
VCL
    varnishd -F -n "$work/varnish" -f "$work/front.vcl" -a "$front" -s malloc,32m \
        -p thread_pools=1 -p thread_pool_min=10 -j none >cache.log 2>&1 &
    cache=$!
}

start_nginx() {
    front=127.0.0.1:$(free_port)
    mkdir -p kept
    cat >front.conf <<CONF
daemon off;
master_process off;
pid $work/nginx.pid;
error_log $work/cache.log;
events { worker_connections 64; }
http {
    access_log off;
    client_body_temp_path $work/body;
    proxy_temp_path $work/temp;
    fastcgi_temp_path $work/fastcgi;
    uwsgi_temp_path $work/uwsgi;
    scgi_temp_path $work/scgi;
    client_max_body_size 64m;
    proxy_cache_path $work/kept keys_zone=kept:1m max_size=64m;
    server {
        listen $front;
        location / {
            slice 256k;
            proxy_pass http://$http;
            proxy_http_version 1.1;
            proxy_set_header Range \$slice_range;
            proxy_cache kept;
            proxy_cache_key \$uri\$slice_range;
            proxy_cache_valid 200 206 1s;
            proxy_cache_revalidate on;
            proxy_request_buffering off;
        }
    }
}
CONF
    nginx -e "$work/cache.log" -c "$work/front.conf" 2>nginx.said &
    cache=$!
}

range() { # first, last: of large
    expect 206 -r "$1-$2" "http://$front/large"
    has Content-Range "bytes $1-$2/3000001"
    tail -c +$(($1 + 1)) large | head -c $(($2 - $1 + 1)) >part
    same body part
}

through() {
    expect 201 -T large "http://$http/large"
    expect 201 -T small "http://$http/small"
    for _ in 1 2; do # fetched, and kept
        expect 200 "http://$front/large"
        same body large
    done
    range 0 0
    range 262143 262144
    range 700000 1900000
    range 2999999 3000000
    expect 416 -r 4000000-4000001 "http://$front/large"
    expect 200 -I "http://$front/small"
    has Content-Length 70001
    expect 404 "http://$front/none"
    # A PUT of unknown length goes through as it comes.
    expect 201 -H 'Transfer-Encoding: chunked' -H 'Expect:' -T - "http://$front/put" <other
    expect 200 "http://$http/put"
    same body other
}

until_true() { # what, command...: which asks the cache once more
    local what=$1
    shift
    checks=$((checks + 1))
    for _ in $(seq 300); do
        expect 200 "http://$front/small"
        "$@" && return
        sleep 0.1
    done
    fail "$what: $(tail -n 5 access.log)"
}
unchanged() {
    [ "$(asked GET small 304)" -gt 0 ]
}

# When it has been kept for as long as it may be without asking.
revalidated() { # name
    : >access.log
    until_true "$1 does not ask again" unchanged
    same body small
    head -c 70001 /dev/urandom >small
    expect 204 -T small "http://$http/small"
    until_true "$1 goes on with what was" cmp -s body small
}

ran=0
for each in varnish nginx; do
    program=$each
    [ $each = nginx ] || program=varnishd
    if ! command -v "$program" >/dev/null; then
        [ "${CLIENTS_ALL:-}" != yes ] || fail "$program is not installed"
        echo "left out: $program, which is not installed"
        continue
    fi
    ran=$((ran + 1))
    "start_$each"
    if answers "${front##*:}"; then
        through
        [ $each = varnish ] || [ "$(asked GET large 206)" -ge 12 ] ||
            fail "nginx does not ask in slices: $(grep large access.log)"
        revalidated $each
    fi
    end_cache
    curl -s -X DELETE "http://$http/large" "http://$http/small" "http://$http/put"
done
[ "$ran" -gt 0 ] || { echo "skipped: neither Varnish nor nginx"; exit 77; }
finish

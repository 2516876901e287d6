#!/usr/bin/env bash
# The packaged clients of other languages against the server's memcached port, one of them over TLS,
# too: each does all that it can, a value of 3 MB among it, which curl must then find byte for byte,
# and looks once more when the server's clock has moved on. Those that are not installed are left out
# and named; Go's is looked for with CLIENTS_ALL=yes only (make clients), for its compiler is half a
# gigabyte.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/e2e/lib_http.sh
. "$here/lib_http.sh"
need curl
need openssl

head -c 3000001 /dev/urandom >large
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -keyout key.pem \
    -out cert.pem -subj /CN=goblin -addext subjectAltName=IP:127.0.0.1 2>/dev/null
serve --memcache 127.0.0.1:0 --memcache-tls 127.0.0.1:0 --certificate cert.pem:key.pem --test-clock
address=$(sed -n 's/^memcache //p' ports | sed -n 1p)
tls=$(sed -n 's/^memcache //p' ports | sed -n 2p)
http=$(sed -n 's/^http //p' ports)
python=/usr/bin/python3

clients=()
client() { # name, how to see that it is there, how to call it
    if bash -c "$2" >/dev/null 2>&1; then
        clients+=("$1:$3")
    elif [ "${CLIENTS_ALL:-}" = yes ]; then
        fail "$1 is not installed"
    else
        echo "left out: $1, which is not installed"
    fi
}
for module in pylibmc pymemcache memcache; do
    client "$module" "$python -c 'import $module'" "$python $here/clients/client.py $module"
done
client pymemcache-tls "$python -c 'import pymemcache'" \
    "env CA=cert.pem $python $here/clients/client.py pymemcache-tls"
client perl 'perl -MCache::Memcached -e 1' "perl $here/clients/client.pl Cache::Memcached"
client perl-fast 'perl -MCache::Memcached::Fast -e 1' \
    "perl $here/clients/client.pl Cache::Memcached::Fast"
client php 'php -m | grep -qx memcached' "php $here/clients/client.php"
if [ "${CLIENTS_ALL:-}" = yes ]; then
    GOPATH=/usr/share/gocode GO111MODULE=off GOCACHE=$work/go GOFLAGS= \
        go build -o go-client "$here/clients/client.go" || fail 'the client of Go does not build'
    client go 'test -x go-client' ./go-client
fi
[ ${#clients[@]} -gt 0 ] || { echo 'skipped: there is no client'; exit 77; }

run() { # phase
    local each at
    for each in "${clients[@]}"; do
        at=$address
        [ "${each%%:*}" != pymemcache-tls ] || at=$tls
        checks=$((checks + 1))
        # shellcheck disable=SC2086 # a command and its words
        timeout 120 ${each#*:} "${at%:*}" "${at##*:}" large "$1" >said 2>&1 ||
            fail "${each%%:*}, $1: $(tail -n 5 said)"
        grep -q "^${each%%:*}: [1-9][0-9]* checks" said || fail "${each%%:*} said $(cat said)"
    done
}
run first
for each in "${clients[@]}"; do
    expect 200 "http://$http/${each%%:*}-large"
    same body large
done
exec 3<>"/dev/tcp/${address%:*}/${address##*:}"
printf 'debugtime 100\r\nquit\r\n' >&3
[ "$(tr -d '\r' <&3)" = OK ] || fail 'the clock does not move'
exec 3>&-
run after
# A client that finds something else says so.
printf x >other
each=${clients[0]}
# shellcheck disable=SC2086 # a command and its words
timeout 60 ${each#*:} "${address%:*}" "${address##*:}" other after >/dev/null 2>&1 &&
    fail "${each%%:*} sees no difference"
echo "clients: ${clients[*]%%:*}"
finish

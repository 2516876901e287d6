#!/usr/bin/env bash
# memcached's protocol over TLS: transcripts, clients in pieces and in no hurry, what is no
# handshake, clients' certificates, and everything read again at SIGHUP; the same by memcached's
# command line.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/e2e/lib_http.sh
. "$here/lib_http.sh"
need openssl
need curl
[ -x /usr/bin/python3 ] || { echo "skipped: there is no /usr/bin/python3"; exit 77; }

authority() { # file
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 \
        -keyout "$1.key" -out "$1.pem" -subj "/CN=$1" 2>/dev/null
}
issue() { # file, authority, name, what for
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$1.key" \
        -out "$1.csr" -subj "/CN=$3" 2>/dev/null
    printf 'subjectAltName=DNS:%s\nextendedKeyUsage=%s\n' "$3" "$4" >"$1.ext"
    openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -days 30 -extfile "$1.ext" \
        -out "$1.pem" 2>/dev/null
}
authority ours
authority theirs
issue one ours one.example serverAuth
issue two ours two.example serverAuth
issue client ours somebody clientAuth
issue stranger theirs somebody clientAuth

client() { # address, NAME, what, [chain, key]
    local address=$1 name=$2 what=$3
    shift 3
    checks=$((checks + 1))
    timeout 240 /usr/bin/python3 "$here/memcache/tls.py" "$address" "${CA:-ours.pem}" "$name" \
        "$what" "$@" >client.log 2>&1 || fail "$name $what $*: $(tail -n 20 client.log)"
}
shown() { # address, name: the subject of the certificate that it gets
    openssl s_client -connect "$1" -servername "$2" </dev/null 2>/dev/null |
        sed -n 's/^subject=CN = //p'
}
metric() { # name
    curl -sS -m 10 "http://$http/metrics" | sed -n "s/^$1 //p"
}
say() { # address, commands, what must come back by way of openssl
    checks=$((checks + 1))
    local got
    got=$(printf '%b' "$2" | timeout 30 openssl s_client -connect "$1" -quiet -verify_quiet 2>/dev/null)
    [ "$got" = "$3" ] || fail "$2 got: $got"
}
serve_memcache() { # options...
    serve --memcache-tls 127.0.0.1:0 --certificate one.pem:one.key --certificate two.pem:two.key \
        --test-clock --log info "$@"
    tls=$(sed -n 's/^memcache //p' ports)
    http=$(sed -n 's/^http //p' ports)
}

serve_memcache --request-timeout 2s
client "$tls" one.example well
idle=$(metric goblin_server_network_bytes)
client "$tls" two.example ill
client "$tls" one.example slow
[ "$(metric 'goblin_server_closed_total{why="handshake"}')" -gt 20 ] || fail 'no handshake failed'
[ "$(metric 'goblin_server_closed_total{why="request"}')" -ge 5 ] || fail 'no handshake was cut'
grep -q '"handshake failed" peer=127.0.0.1' server.log || fail "the log: $(tail server.log)"
for _ in $(seq 100); do
    [ "$(metric goblin_server_network_bytes)" -le "$((idle + 65536))" ] && break
    sleep 0.05
done
[ "$(metric goblin_server_network_bytes)" -le "$((idle + 65536))" ] ||
    fail "of the network's memory $(metric goblin_server_network_bytes) bytes are held, not $idle"
say "$tls" 'set k 0 0 5\r\nhello\r\nget k\r\nquit\r\n' $'STORED\r\nVALUE k 0 5\r\nhello\r\nEND\r'
[ "$(shown "$tls" two.example)" = two.example ] || fail "two.example gets $(shown "$tls" two.example)"
openssl s_client -connect "$tls" -tls1_1 </dev/null >/dev/null 2>&1 && fail 'TLS 1.1 is taken'
if command -v sslscan >/dev/null; then
    checks=$((checks + 1))
    sslscan --no-colour "$tls" >scan 2>&1
    enabled=$(sed -n 's/^\(SSLv[23]\|TLSv1\.[0-3]\) *enabled$/\1/p' scan | tr '\n' ' ')
    [ "$enabled" = 'TLSv1.2 TLSv1.3 ' ] || fail "sslscan finds: $enabled"
    grep -E '^(Accepted|Preferred)' scan | grep -vE 'GCM|CHACHA20' && fail 'a cipher without AEAD'
    grep -q '^Preferred' scan || fail "sslscan saw no ciphers: $(cat scan)"
    grep -qi 'vulnerable to heartbleed' scan && grep -i heartbleed scan | grep -vqi 'not vulnerable' |
        grep . && fail 'heartbleed'
else
    echo 'left out: sslscan, which is not installed'
fi

# ---- read again: who is connected stays ----------------------------------------------------------
mkfifo in
timeout 60 openssl s_client -connect "$tls" -quiet -verify_quiet <in >out 2>/dev/null &
talker=$!
exec 4>in
printf 'mn\r\n' >&4
await_lines() { # how many
    for _ in $(seq 400); do
        [ "$(wc -l <out)" -ge "$1" ] && return
        sleep 0.05
    done
    fail "$(wc -l <out) lines came, not $1"
}
await_lines 1
issue three ours three.example serverAuth
cp three.pem two.pem && cp three.key two.key
kill -HUP "$server"
for _ in $(seq 200); do
    [ "$(shown "$tls" three.example)" = three.example ] && break
    sleep 0.05
done
[ "$(shown "$tls" three.example)" = three.example ] || fail 'the new certificate is not there'
cp one.key two.key
printf 'refresh_certs\r\n' >&4
await_lines 2
for _ in $(seq 400); do
    grep -q 'certificates kept' server.log && break
    sleep 0.05
done
grep -q 'certificates kept as they were.*not the key of its certificate' server.log ||
    fail "the log: $(tail server.log)"
[ "$(shown "$tls" three.example)" = three.example ] || fail 'what is no good was taken'
cp three.key two.key
for _ in $(seq 20); do
    printf 'refresh_certs\r\n' >&4
done
printf 'quit\r\n' >&4
exec 4>&-
wait "$talker"
[ "$(tr -d '\r' <out | sort | uniq -c | tr -s ' \n' ' ')" = ' 1 MN 21 OK ' ] || fail "out: $(cat out)"

# ---- clients' certificates -----------------------------------------------------------------------
serve_memcache --memcache-client-ca ours.pem
client "$tls" one.example somebody client.pem client.key
client "$tls" one.example nobody
client "$tls" one.example nobody stranger.pem stranger.key
client "$tls" one.example nobody one.pem one.key # is a server's
end_server

# ---- at the start it is a fault ------------------------------------------------------------------
refuses() { # text, options...
    local text=$1
    shift
    checks=$((checks + 1))
    "$GOBLIN" serve --check-config --store other --http 127.0.0.1:0 "$@" >refused 2>&1 &&
        fail "$* was taken"
    grep -qF -- "$text" refused || fail "$* says '$(cat refused)'"
}
good=(--memcache-tls 127.0.0.1:0 --certificate one.pem:one.key)
"$GOBLIN" serve --check-config --store other "${good[@]}" --memcache-client-ca ours.pem ||
    fail 'good options are refused'
refuses 'needs a --certificate' --memcache-tls 127.0.0.1:0
refuses 'not the key of its certificate' --memcache-tls 127.0.0.1:0 --certificate one.pem:ours.key
refuses 'absent' "${good[@]}" --memcache-client-ca absent
refuses 'one.key' "${good[@]}" --memcache-client-ca one.key
refuses 'needs a --memcache-tls' --memcache-client-ca ours.pem

# ---- by memcached's command line -----------------------------------------------------------------
start() { # options...
    rm -f given
    MEMCACHED_PORT_FILENAME=$work/given TMPDIR=$work "$GOBLIN" memcached -u "$(id -un)" -m 64 "$@" \
        2>server.log &
    server=$!
    for _ in $(seq 400); do
        [ -s given ] && break
        sleep 0.05
    done
    [ -s given ] || { echo "did not start: $(cat server.log)"; exit 1; }
    tls=127.0.0.1:$(sed -n '1s/.*: //p' given)
}
cat two.key two.pem >both.pem
start -Z -l 127.0.0.1:0,notls:127.0.0.1:0 --test-clock -o ssl_chain_cert=both.pem,ssl_min_version=3,ssl_ciphers=ALL
grep -q 'ssl_ciphers has no meaning here' server.log || fail "no warning: $(cat server.log)"
printf 'stats settings\r\nquit\r\n' | timeout 30 openssl s_client -connect "$tls" -quiet \
    -verify_quiet 2>/dev/null | tr -d '\r' >stats
grep -qx 'STAT ssl_enabled yes' stats && grep -qx 'STAT ssl_min_version tlsv1.3' stats &&
    grep -qx 'STAT ssl_chain_cert both.pem' stats || fail "stats settings: $(cat stats)"
openssl s_client -connect "$tls" -tls1_2 </dev/null >/dev/null 2>&1 && fail 'TLS 1.2 is taken'
exec 3<>"/dev/tcp/127.0.0.1/$(sed -n '2s/.*: //p' given)"
printf 'mn\r\nquit\r\n' >&3
[ "$(tr -d '\r' <&3)" = MN ] || fail 'notls: is not in plain text'
exec 3>&-
for split in -1 3000; do
    checks=$((checks + 1))
    timeout 240 /usr/bin/python3 "$here/memcache/play.py" "tls:$tls" goblin "$split" \
        "$here"/memcache/{text,errors,meta,stale,time,large}.txt || fail "transcripts, split $split"
done
end_server
start -Z -l 127.0.0.1:0 -I 8m -o ssl_chain_cert=one.pem,ssl_key=one.key,ssl_ca_cert=ours.pem,ssl_verify_mode=1
client "$tls" one.example somebody # asked for, not required
client "$tls" one.example somebody client.pem client.key
client "$tls" one.example nobody stranger.pem stranger.key
end_server
start -Z -l 127.0.0.1:0 -I 8m -o ssl_chain_cert=one.pem,ssl_key=one.key,ssl_ca_cert=ours.pem,ssl_verify_mode=3
client "$tls" one.example nobody
client "$tls" one.example somebody client.pem client.key
finish

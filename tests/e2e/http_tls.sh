#!/usr/bin/env bash
# HTTPS with certificates by name, tokens, and both read again at SIGHUP.
set -uo pipefail
# shellcheck source=tests/e2e/lib_http.sh
. "$(dirname "$0")/lib_http.sh"
need curl
need openssl

certificate() { # file, name
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 \
        -keyout "$1.key" -out "$1.pem" -subj "/CN=$2" -addext "subjectAltName=DNS:$2" 2>/dev/null
}
certificate one one.example
certificate two two.example
cat one.pem two.pem >all.pem
head -c 3000000 /dev/urandom >large
printf 'read   a-token-that-may-read\nwrite  a-token-that-may-write\n' >tokens

serve --https 127.0.0.1:0 --certificate one.pem:one.key --certificate two.pem:two.key \
    --http-tokens tokens
port=${https##*:}
secure() { # status, name, path, curl's arguments...
    local status=$1 name=$2 path=$3
    shift 3
    expect "$status" --cacert "${CA:-all.pem}" --resolve "$name:$port:127.0.0.1" "$@" \
        "https://$name:$port$path"
}
read='Authorization: Bearer a-token-that-may-read'
write='authorization: bearer  a-token-that-may-write'

# ---- names ---------------------------------------------------------------------------------------
secure 200 one.example /healthz
secure 200 two.example /healthz
secure 000 three.example /healthz # gets the first one, which does not fit
shown() { # name: the subject of the certificate that it gets
    openssl s_client -connect "$https" -servername "$1" </dev/null 2>/dev/null |
        sed -n 's/^subject=CN = //p'
}
[ "$(shown two.example)" = two.example ] || fail "two.example gets '$(shown two.example)'"
[ "$(shown other.example)" = one.example ] || fail "another name gets '$(shown other.example)'"
openssl s_client -connect "$https" -tls1_1 </dev/null >tls11 2>&1 && fail 'TLS 1.1 is taken'
openssl s_client -connect "$https" -tls1_2 </dev/null >tls12 2>&1 || fail 'TLS 1.2 is refused'

# ---- rights --------------------------------------------------------------------------------------
secure 401 one.example /k -T large
has WWW-Authenticate 'Bearer realm="goblin"'
secure 403 one.example /k -T large -H "$read"
secure 201 one.example /k -T large -H "$write"
secure 200 two.example /k -H "$read"
same body large
secure 200 two.example /k -H "$write"
secure 401 two.example /k -H 'Authorization: Bearer a-token-that-may-rea'
secure 401 two.example /k -H 'Authorization: Bearer a-token-that-may-readx'
secure 401 two.example /k -H 'Authorization: Basic a-token-that-may-read'
secure 401 two.example /metrics
secure 200 two.example /metrics -H "$read"
secure 401 two.example '/?prefix=k'
expect 401 "http://$http/k"
expect 200 "http://$http/readyz"

# ---- read again ----------------------------------------------------------------------------------
certificate one one.example
certificate three three.example
cp three.pem two.pem && cp three.key two.key
printf 'write another-token-to-write\nread anonymous\n' >tokens
kill -HUP "$server"
for _ in $(seq 100); do
    [ "$(shown three.example)" = three.example ] && break
    sleep 0.05
done
[ "$(shown three.example)" = three.example ] || fail 'the new certificate is not there'
CA=three.pem secure 200 three.example /k
CA=three.pem secure 401 three.example /k -T large -H "$write"
CA=three.pem secure 204 three.example /k -T large -H 'Authorization: Bearer another-token-to-write'

# What is no good leaves what was there, and is logged.
cp one.key two.key
printf 'own everything-there-is\n' >tokens
kill -HUP "$server"
for _ in $(seq 100); do
    grep -q 'certificates kept' server.log && break
    sleep 0.05
done
grep -q 'tokens kept as they were.*line 1' server.log || fail "the log: $(cat server.log)"
grep -q 'certificates kept as they were.*not the key of its certificate' server.log ||
    fail "the log: $(cat server.log)"
CA=three.pem secure 200 three.example /k

# ---- at the start it is a fault ------------------------------------------------------------------
refuses() { # text, options...
    local text=$1
    shift
    checks=$((checks + 1))
    "$GOBLIN" serve --quiet --store other --store-size 64M --memory 16M --http 127.0.0.1:0 "$@" \
        >refused 2>&1 && fail "$* was taken"
    grep -qF -- "$text" refused || fail "$* says '$(cat refused)'"
}
refuses 'line 1' --http-tokens tokens
refuses 'absent: No such file' --http-tokens absent
refuses 'needs a --certificate' --https 127.0.0.1:0
refuses 'not the key of its certificate' --certificate two.pem:two.key
refuses 'two files' --certificate two.pem
refuses '[HOST]/PATH=KEY' --http-map nothing
finish

# For the tests of HTTP: a server of one's own, and questions to it. To be sourced; sets work, leaves
# the caller in it, and ends the server with the script.
work=$(mktemp -d "${TMPDIR:-/var/tmp}/goblin-http.XXXXXX")
server=
failures=0
checks=0

end_server() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null
        wait "$server"
        ended=$?
        server=
    fi
}
trap 'end_server; rm -rf "$work"' EXIT
cd "$work" || exit 1
[ -x "${GOBLIN:-}" ] || { echo "GOBLIN must name the program" >&2; exit 1; }

need() { # tool: the whole test is about it
    command -v "$1" >/dev/null || { echo "skipped: $1 is not installed"; exit 77; }
}

fail() {
    failures=$((failures + 1))
    echo "FAILED: $*"
}

# Starts the server and waits until it listens; http and https are its addresses.
serve() { # options...
    end_server
    rm -f ports
    "$GOBLIN" serve --quiet --store store --store-size 256M --memory 64M --http 127.0.0.1:0 \
        --port-file ports "$@" >server.log 2>&1 &
    server=$!
    for _ in $(seq 200); do
        [ -s ports ] && break
        kill -0 "$server" 2>/dev/null || break
        sleep 0.05
    done
    [ -s ports ] || { echo "the server did not start: $(cat server.log)"; exit 1; }
    http=$(sed -n '1s/^http //p' ports)
    https=$(sed -n '2s/^http //p' ports)
}

ask() { # curl's arguments...; head and body are what came, code its status
    checks=$((checks + 1))
    code=$(curl -sS -m 60 -D head -o body -w '%{http_code}' "$@" 2>curl.err) || true
}

# Asks and looks at the status.
expect() { # status, curl's arguments...
    local status=$1
    shift
    ask "$@"
    [ "$code" = "$status" ] || fail "curl $*: $code, not $status: $(cat curl.err)"
}

field() { # name: its value in the last answer
    sed -n "s/^$1: \(.*\)\r\$/\1/Ip" head
}

has() { # name, value
    checks=$((checks + 1))
    [ "$(field "$1")" = "$2" ] || fail "$1 is '$(field "$1")', not '$2'"
}

same() { # file, file
    checks=$((checks + 1))
    cmp -- "$1" "$2" || fail "$1 and $2 differ"
}

finish() {
    end_server
    [ "${ended:-0}" -eq 0 ] || fail "the server ended with $ended: $(cat server.log)"
    echo "$checks checks, $failures failed"
    [ "$failures" -eq 0 ]
}

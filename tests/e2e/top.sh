#!/usr/bin/env bash
# goblin top: one view, and the live one in a terminal of its own.
set -uo pipefail
# shellcheck source=tests/e2e/lib_http.sh
. "$(dirname "$0")/lib_http.sh"
need curl
[ -x /usr/bin/python3 ] || { echo 'skipped: there is no /usr/bin/python3'; exit 77; }

shows() { # file, extended regular expression
    checks=$((checks + 1))
    grep -qE -- "$2" "$1" || fail "$1 has no '$2': $(cat "$1")"
}

refuses() { # code, what is said, arguments...
    local code=$1 wanted=$2
    shift 2
    checks=$((checks + 1))
    "$GOBLIN" top "$@" >out 2>said </dev/null
    [ $? = "$code" ] && grep -qF -- "$wanted" said || fail "top $*: $(cat said)"
}

printf 'read a-token-that-may-read\nwrite a-token-that-may-write\n' >tokens
echo a-token-that-may-read >token
echo wrong >wrong
serve --http-tokens tokens --http "$work/socket" --memcache 127.0.0.1:0
http=$(sed -n "s/^http \(127.*\)/\1/p" ports)
expect 201 -T tokens -H 'Authorization: Bearer a-token-that-may-write' "http://$http/one"
for _ in 1 2 3; do
    expect 200 -H 'Authorization: Bearer a-token-that-may-read' "http://$http/one"
done
expect 404 -H 'Authorization: Bearer a-token-that-may-read' "http://$http/two"

for address in "$http" "http://$http" "$work/socket" "unix:$work/socket"; do
    "$GOBLIN" top "$address" --once --token-file token >once 2>&1 || fail "top $address: $(cat once)"
    shows once "^goblin at $address, up .*; 1 objects, "
    shows once '^disk +\[[# ]{24}\] .* of 256 MiB$'
    shows once '^hits: +75.0 % of gets, 75.0 % from RAM alone$'
    shows once '^get +ram .* (us|ms)$'
    shows once '^put +none .* (us|ms)$'
done
refuses 2 'the server answers 401' "$http" --once
refuses 2 'the server answers 401' "$http" --once --token-file wrong
refuses 3 'No such file' "$http" --once --token-file absent
refuses 2 'give HOST:PORT' nowhere --once
refuses 2 'TLS is not spoken' "https://$http" --once
refuses 2 'no HTTP server' "$(sed -n 's/^memcache //p' ports)" --once
refuses 2 'give --once' "$http" --token-file token
refuses 2 'at least 100 ms' "$http" --interval 1ms

# In a terminal: it draws anew, keeps to its size, and gives the old screen back.
cat >terminal.py <<'PY'
import fcntl, os, pty, select, struct, sys, termios
rows, columns = 9, 50
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
seen, asked = b"", False
while True:
    if not select.select([fd], [], [], 60)[0]:
        sys.exit("nothing for a minute")
    try:
        got = os.read(fd, 65536)
    except OSError:
        break
    seen += got
    if not asked and seen.count(b"\x1b[H") >= 3:
        os.write(fd, sys.stdin.buffer.read())
        asked = True
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
frames = seen.split(b"\x1b[H")
assert status == 0, status
assert b"\x1b[?1049h" in frames[0] and seen.endswith(b"\x1b[?1049l"), seen
for frame in frames[1:]:
    lines = frame.split(b"\x1b[J")[0].split(b"\r\n")
    assert len(lines) <= rows, lines
    assert all(len(line.replace(b"\x1b[K", b"")) <= columns for line in lines), lines
assert b"goblin at " in frames[1], frames[1]
print(len(frames))
PY
for key in q '\003'; do
    checks=$((checks + 1))
    printf '%b' "$key" | timeout 120 /usr/bin/python3 terminal.py "$GOBLIN" top "$http" \
        --token-file token --interval 100ms >frames 2>&1 || fail "in a terminal: $(cat frames)"
done
finish

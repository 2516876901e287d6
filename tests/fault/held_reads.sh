#!/usr/bin/env bash
# A drive that answers nothing for a while, below a server: what is in RAM, and stats, are answered
# all the same, on the loops whose reads are held up; and when the drive goes on, so do they. With
# rings, and with the threads that read where there are none.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/fault/lib.sh
. "$here/lib.sh"
# shellcheck source=tests/fault/lib_nbd.sh
. "$here/lib_nbd.sh"
[ -x "${GOBLIN:-}" ] || skip "there is no goblin"
[ -x /usr/bin/python3 ] || skip "there is no /usr/bin/python3"

make_drive 256M journal=outside || { fail "no drive: $(cat nbd.said)"; finish; }
cat >hold.py <<'PYTHON'
import hashlib, os, select, signal, socket, sys, time

PATIENCE_S = 60
BIG, SMALL, ROUNDS = 60, 40, 100
BIG_BYTES = 400000


def value_of(key, size):
    return hashlib.shake_128(key.encode()).digest(size)


class Client:
    def __init__(self):
        host, port = sys.argv[1].rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self.bytes = b""

    def say(self, data):
        self.socket.sendall(data)

    def take(self, wait_s):
        """What comes within that time; False: nothing."""
        if not select.select([self.socket], [], [], wait_s)[0]:
            return False
        piece = self.socket.recv(1 << 20)
        self.bytes += piece
        return len(piece) > 0

    def read(self, count):
        while len(self.bytes) < count:
            assert self.take(PATIENCE_S), "no answer"
        read, self.bytes = self.bytes[:count], self.bytes[count:]
        return read

    def line(self):
        while b"\n" not in self.bytes:
            assert self.take(PATIENCE_S), "no answer"
        return self.read(self.bytes.index(b"\n") + 1).rstrip(b"\r\n")

    def value(self, key, size):
        assert self.line() == b"VALUE %s 0 %d" % (key.encode(), size), "no value of %s" % key
        assert self.read(size + 2)[:-2] == value_of(key, size), "wrong bytes of %s" % key
        assert self.line() == b"END"


client = Client()
for name, count, size in (("big", BIG, BIG_BYTES), ("small", SMALL, 1000)):
    for i in range(count):
        key = "%s%d" % (name, i)
        client.say(b"set %s 0 0 %d\r\n%s\r\n" % (key.encode(), size, value_of(key, size)))
        assert client.line() == b"STORED"
drive = int(sys.argv[2])
os.kill(drive, signal.SIGSTOP)
try:
    waiting = [Client() for _ in range(20)]
    for i, slow in enumerate(waiting):
        slow.say(b"get big%d\r\n" % i)
    times = []
    others = [Client() for _ in range(8)]  # on all loops
    for i in range(ROUNDS):
        for other in others:
            began = time.monotonic()
            key = "small%d" % (i % SMALL)
            other.say(b"get %s\r\nstats\r\n" % key.encode())
            other.value(key, 1000)
            while other.line() != b"END":
                pass
            times.append(time.monotonic() - began)
    for slow in waiting:
        while slow.take(0.05):
            pass
    held = sum(len(slow.bytes) < BIG_BYTES for slow in waiting)
finally:
    os.kill(drive, signal.SIGCONT)
times.sort()
print("%d of %d reads held up; RAM and stats: p99 %.1f ms, at most %.1f ms" % (
    held, len(waiting), times[len(times) * 99 // 100] * 1000, times[-1] * 1000))
assert held > 0, "no read was held up"
for i, slow in enumerate(waiting):
    slow.value("big%d" % i, BIG_BYTES)
PYTHON

holds() { # how the store reads
    "$GOBLIN" serve --store "$work/mnt/$1" --store-size 96M --memory 16M --threads 2 --quiet \
        --io "$1" --memcache 127.0.0.1:0 --port-file "$work/ports.$1" >said 2>&1 &
    local server=$!
    await test -s "ports.$1"
    pass /usr/bin/python3 hold.py "$(sed -n 's/^memcache //p' "ports.$1")" "$nbdkit_pid"
    kill "$server"
    wait "$server" || fail "the server ended with $?: $(cat said)"
}

holds sync
if "$GOBLIN" init "$work/mnt/probe" --size 8M --io uring >said 2>&1; then
    rm -r "$work/mnt/probe"
    holds uring
else
    echo "no io_uring here: $(cat said)"
fi
finish

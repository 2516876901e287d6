#!/usr/bin/python3
"""What TLS on the memcached port must stand: clients of all kinds, and such as are none.

    tls.py ADDRESS:PORT CA NAME well|ill|slow|somebody|nobody [CHAIN KEY]

well    values of every size around a record's, pipelines, streams cut into pieces, ends of streams
ill     what is no handshake, or no record behind one
slow    handshakes that do not come to their end: the server must cut them
somebody  the server must let in
nobody  the server must refuse, whatever the client's certificate is good for elsewhere

The server's certificate must be good for NAME by CA; CHAIN and KEY are the client's own.
"""
import os
import socket
import ssl
import sys
import time

WAIT_S = 60
address, ca, name, mode = sys.argv[1:5]
host, port = address.rsplit(":", 1)


def dial():
    plain = socket.create_connection((host, int(port)), timeout=WAIT_S)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return plain


def make_context(version=None):
    context = ssl.create_default_context(cafile=ca)
    if version is not None:
        context.minimum_version = context.maximum_version = version
    if len(sys.argv) > 5:
        context.load_cert_chain(sys.argv[5], sys.argv[6])
    return context


def connect(version=None):
    return make_context(version).wrap_socket(dial(), server_hostname=name)


def expect(file, wanted):
    got = file.read(len(wanted))
    assert got == wanted, "%r, not %r" % (got[:200], wanted[:200])


def set_command(key, value):
    return b"set %s 5 0 %d\r\n%s\r\n" % (key, len(value), value)


def answer(key, value):
    return b"VALUE %s 5 %d\r\n%s\r\n" % (key, len(value), value)


class Pieces:
    """A client whose records pass through our hands on their way to the socket."""

    def __init__(self):
        self.plain = dial()
        self.from_server, self.to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = make_context().wrap_bio(self.from_server, self.to_server, server_hostname=name)

    def out(self, step):
        data = self.to_server.read()
        for at in range(0, len(data), step):
            self.plain.sendall(data[at:at + step])

    def shake(self, step):
        while True:
            try:
                self.tls.do_handshake()
                self.out(step)
                return
            except ssl.SSLWantReadError:
                self.out(step)
                self.more()

    def more(self):
        data = self.plain.recv(65536)
        if data:
            self.from_server.write(data)
        else:
            self.from_server.write_eof()

    def read(self):
        while True:
            try:
                return self.tls.read(65536)
            except ssl.SSLWantReadError:
                self.more()
            except ssl.SSLError:
                return b""

    def read_all(self):
        data = b""
        while True:
            some = self.read()
            if not some:
                return data
            data += some


def try_sizes(version):
    client = connect(version)
    assert client.version() == {ssl.TLSVersion.TLSv1_2: "TLSv1.2",
                                ssl.TLSVersion.TLSv1_3: "TLSv1.3"}[version]
    file = client.makefile("rb")
    values = {b"v%d" % size: os.urandom(size) for size in
              (0, 1, 4095, 8192, 16383, 16384, 16385, 65536, 262144, 262145, 500000, 5000001)}
    for key, value in values.items():
        client.sendall(set_command(key, value))
        expect(file, b"STORED\r\n")
    for key, value in values.items():
        client.sendall(b"get %s\r\n" % key)
        expect(file, answer(key, value) + b"END\r\n")
    client.sendall(b"get " + b" ".join(values) + b"\r\n")
    for key, value in values.items():
        expect(file, answer(key, value))
    expect(file, b"END\r\n")
    client.close()


def try_pipelines():
    client = connect()
    file = client.makefile("rb")
    value = os.urandom(700)
    client.sendall(b"".join(set_command(b"p%d" % i, value) for i in range(500)))
    expect(file, b"STORED\r\n" * 500)
    client.sendall(b"".join(b"get p%d\r\n" % i for i in range(500)))
    for i in range(500):
        expect(file, answer(b"p%d" % i, value) + b"END\r\n")
    client.close()


def try_pieces():
    value = os.urandom(20000)
    for step in (1, 7, 100000):
        client = Pieces()
        client.shake(step)
        for at in range(0, len(value), 5000):  # many records, and splits everywhere in them
            part = value[at:at + 5000]
            for byte in set_command(b"piece%d" % at, part)[:40]:
                client.tls.write(bytes([byte]))
            client.tls.write(set_command(b"piece%d" % at, part)[40:])
            client.out(max(step, 3))
            got = b""
            while len(got) < 8:
                got += client.read()
            assert got == b"STORED\r\n", got
        # The last commands, and the end of the stream, in one segment.
        client.tls.write(b"get piece0\r\n")
        client.tls.write(b"get piece5000\r\n")
        try:
            client.tls.unwrap()
        except ssl.SSLWantReadError:
            pass
        client.out(100000)
        got = client.read_all()
        wanted = (answer(b"piece0", value[:5000]) + b"END\r\n" +
                  answer(b"piece5000", value[5000:10000]) + b"END\r\n")
        assert got == wanted, (step, len(got), len(wanted))
        client.plain.close()


def try_ends():
    # Without a word of goodbye: what has come is answered all the same.
    client = Pieces()
    client.shake(100000)
    client.tls.write(b"set end 5 0 3\r\nabc\r\nget end\r\n")
    client.out(100000)
    client.plain.shutdown(socket.SHUT_WR)
    got = client.read_all()
    assert got == b"STORED\r\n" + answer(b"end", b"abc") + b"END\r\n", got
    # In the middle of a value: nothing is stored.
    client = connect()
    client.sendall(b"set half 5 0 1000000\r\n" + b"x" * 999999)
    client.close()
    client = connect()
    file = client.makefile("rb")
    client.sendall(b"get half\r\nquit\r\n")
    expect(file, b"END\r\n")
    assert file.read() == b""
    # The server says goodbye, so that nobody can cut an answer short unnoticed.
    client = make_context().wrap_socket(dial(), server_hostname=name, suppress_ragged_eofs=False)
    client.sendall(b"mn\r\nquit\r\n")
    got = b""
    while True:
        some = client.recv(100)
        if not some:
            break
        got += some
    assert got == b"MN\r\n", got


def try_slow_reader():
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(WAIT_S)
    plain.connect((host, int(port)))
    client = make_context().wrap_socket(plain, server_hostname=name)
    file = client.makefile("rb", buffering=4096)
    values = [os.urandom(900000), os.urandom(30000), os.urandom(300000)]
    for i, value in enumerate(values):
        client.sendall(set_command(b"slow%d" % i, value))
        expect(file, b"STORED\r\n")
    client.sendall(b"get slow0 slow1 slow2\r\n" * 3)
    time.sleep(0.5)  # longer than the server holds its buffers for us
    for _ in range(3):
        for i, value in enumerate(values):
            wanted = answer(b"slow%d" % i, value)
            for at in range(0, len(wanted), 3000):
                expect(file, wanted[at:at + 3000])
        expect(file, b"END\r\n")
    client.close()


def blurt(plain, data):
    """Sends it all, and the end, to a server that may hang up before."""
    try:
        plain.sendall(data)
        plain.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def ends(plain):
    """The server closes, having said nothing but an alert."""
    got = b""
    try:
        while True:
            some = plain.recv(65536)
            if not some:
                return got
            got += some
    except ConnectionError:
        return got


def hello():
    client = Pieces()
    try:
        client.tls.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return client.plain, client.to_server.read()


def try_no_handshakes():
    noise = [
        b"get k\r\n" * 3,
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x80\x2e\x01\x00\x02" + b"\0" * 41,            # SSL 2
        b"\x16\x03\x01\xff\xff" + b"\0" * 70000,         # a record longer than there are
        b"\x16\x03\x01\x00\x00" * 500,                   # empty ones
        b"\x15\x03\x03\x00\x02\x01\x5a" * 500,           # nothing but warnings
        b"\x17\x03\x03\x00\x05hello",                    # data before the handshake
        os.urandom(5000),
    ]
    for data in noise:
        plain = dial()
        blurt(plain, data)
        got = ends(plain)
        assert b"END" not in got and len(got) < 100, got[:200]
        plain.close()
    plain, first = hello()
    plain.close()
    for at in range(0, len(first), 11):  # a hello with a bit of it wrong, or its end missing
        for bad in (first[:at] + bytes([first[at] ^ 0x10]) + first[at + 1:], first[:at]):
            plain = dial()
            blurt(plain, bad)
            ends(plain)
            plain.close()
    print("%d hellos" % (2 * len(range(0, len(first), 11))))


def try_bad_records():
    for bad in (b"\x17\x03\x03\x00\x20" + os.urandom(32), b"\x17\x03\x03\x48\x00" + b"\0" * 18432,
                b"\x16\x03\x03\x00\x04\x00\x00\x00\x00", os.urandom(100), b"mn\r\n" * 50):
        client = Pieces()
        client.shake(100000)
        client.tls.write(b"set bad 5 0 3\r\n")
        client.out(100000)
        blurt(client.plain, bad)
        assert b"STORED" not in client.read_all()
        client.plain.close()
    # What came before is answered; what is replayed is not taken.
    client = Pieces()
    client.shake(100000)
    client.tls.write(b"incr once 1\r\n")
    record = client.to_server.read()
    blurt(client.plain, record + record)
    got = client.read_all()
    assert got == b"NOT_FOUND\r\n", got


def try_unfinished():
    plain, first = hello()
    began = time.monotonic()
    silent = dial()
    plain.sendall(first[:20])
    half = dial()
    half.sendall(first[:-1])
    done = dial()
    done.sendall(first)  # answered, and then nothing follows
    trickle, its = hello()
    trickle.settimeout(0.05)
    for at in range(len(its)):
        try:
            trickle.sendall(its[at:at + 1])
            if trickle.recv(1) == b"":
                break
        except TimeoutError:
            pass
        except OSError:
            break
    else:
        raise AssertionError("%d bytes were waited for, %.1f s" % (len(its),
                                                                   time.monotonic() - began))
    for waiting in (silent, plain, half, done):
        ends(waiting)
    print("cut after %.1f s" % (time.monotonic() - began))


def try_friend():
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        client = connect(version)
        client.sendall(b"mn\r\n")
        expect(client.makefile("rb"), b"MN\r\n")


def try_stranger():
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        try:
            client = connect(version)
            client.sendall(b"mn\r\n")
            got = client.recv(100)
        except OSError:
            got = b""
        assert got == b"", got


if mode == "well":
    try_sizes(ssl.TLSVersion.TLSv1_2)
    try_sizes(ssl.TLSVersion.TLSv1_3)
    try_pipelines()
    try_pieces()
    try_ends()
    try_slow_reader()
elif mode == "ill":
    try_no_handshakes()
    try_bad_records()
elif mode == "slow":
    try_unfinished()
elif mode == "somebody":
    try_friend()
else:
    try_stranger()

#!/usr/bin/python3
"""Plays transcripts of the memcached protocol against a server and compares its answers.

    play.py [tls:]ADDRESS:PORT|/SOCKET goblin|memcached SPLIT TRANSCRIPT...

A transcript is lines, each beginning with

    #      a comment
    >      a line that is sent, with \\r\\n behind it
    >.     bytes that are sent as they stand
    <      a line that is expected, and \\r\\n
    <.     bytes that are expected as they stand
    <g <m  a line that is expected of goblin, of memcached only
    !      the server closes the connection
    +N     the server's clock moves on by N seconds (goblin only: debugtime)
    %g %m  up to the next % alone: for goblin, for memcached only

\\r \\n \\0 \\t \\\\ \\xNN stand for bytes, *N(text) for the text N times. {name} in what is expected is
a number, which {name} stands for from then on; {} is any number.

SPLIT 0 sends each run of > lines whole and waits for its answers; N sends pieces of N bytes; -1
sends everything that needs no number from an answer at once. Each transcript has a connection of
its own, which begins with flush_all and ends with mn.
"""
import re
import socket
import ssl
import sys
import time

WAIT_S = 20


class Failure(Exception):
    pass


def unescape(text):
    text = re.sub(r"\*(\d+)\(([^)]*)\)", lambda m: m.group(2) * int(m.group(1)), text)
    table = {"r": "\r", "n": "\n", "0": "\0", "t": "\t", "\\": "\\"}
    return re.sub(r"\\(x[0-9a-f]{2}|.)",
                  lambda m: chr(int(m.group(1)[1:], 16)) if m.group(1)[0] == "x"
                  else table[m.group(1)], text)


class Session:
    def __init__(self, address, split):
        if address.startswith("/"):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(address)
        else:
            secure = address.startswith("tls:")
            host, port = address.removeprefix("tls:").rsplit(":", 1)
            self.socket = socket.create_connection((host, int(port)))
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if secure:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
                self.socket = context.wrap_socket(self.socket)
        self.socket.settimeout(WAIT_S)
        self.split = split
        self.names = {}
        self.to_send = b""
        self.expected = ""
        self.received = b""

    def flush(self):
        step = self.split if self.split > 0 else max(len(self.to_send), 1)
        try:
            for at in range(0, len(self.to_send), step):
                self.socket.sendall(self.to_send[at:at + step])
                if self.split > 0:
                    time.sleep(0.00005)  # so that most pieces arrive as such
        except OSError:
            pass  # what is read next says why
        self.to_send = b""
        self.compare()

    def more(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            data = b""
        except TimeoutError:
            raise Failure("no answer for %d s; got %r, expected %r" %
                          (WAIT_S, self.received[:2000], self.expected[:2000])) from None
        self.received += data
        return len(data) > 0

    def need(self, length):
        while len(self.received) < length:
            if not self.more():
                raise Failure("closed after %r, expected %r" %
                              (self.received[:2000], self.expected[:2000]))

    def compare(self):
        """Eats what is expected off what is received."""
        at = 0
        for part in re.split(r"(\{\w*\})", self.expected):
            if re.fullmatch(r"\{\w*\}", part):
                end = at
                while True:
                    self.need(end + 1)
                    if not self.received[end:end + 1].isdigit():
                        break
                    end += 1
                number = self.received[at:end].decode()
                name = part[1:-1]
                if not number or (name and self.names.setdefault(name, number) != number):
                    self.differ()
                at = end
            else:
                wanted = part.encode("latin1")
                for start in range(0, len(wanted), 65536):
                    piece = wanted[start:start + 65536]
                    while (len(self.received) < at + len(piece) and
                           piece.startswith(self.received[at:]) and self.more()):
                        pass
                    if self.received[at:at + len(piece)] != piece:
                        self.differ()
                    at += len(piece)
        self.received = self.received[at:]
        self.expected = ""

    def differ(self):
        raise Failure("expected\n%s\n--- got\n%s" %
                      (self.expected[:3000], self.received.decode("latin1")[:3000]))

    def closes(self):
        self.flush()
        while self.more():
            pass
        if self.received:
            self.differ()


def play(address, who, split, path):
    session = Session(address, split)
    lines = open(path, encoding="latin1").read().split("\n")
    closed = False
    only = ""
    answering = False
    number = 0
    try:
        session.to_send += b"flush_all\r\n"
        session.expected += "OK\r\n"
        for number, line in enumerate(lines, 1):
            mark, text = line[:1], line[1:]
            if mark == "%":
                only = text
                continue
            if mark in "#" or (only and only != who[0]):
                continue
            if mark == "+":
                session.flush()
                session.to_send += b"debugtime %s\r\n" % text.strip().encode()
                session.expected += "OK\r\n"
                session.flush()
                continue
            if mark == ">":
                if answering and split >= 0:
                    session.flush()
                answering = False
                end = "" if text.startswith(".") else "\r\n"
                names = re.findall(r"\{(\w+)\}", text)
                if names:
                    session.flush()
                for name in names:
                    text = text.replace("{%s}" % name, session.names[name])
                session.to_send += (unescape(text[1:]) + end).encode("latin1")
            elif mark == "<":
                answering = True
                if text[:1] in "gm":
                    if text[0] != who[0]:
                        continue
                    text = text[1:]
                end = "" if text.startswith(".") else "\r\n"
                session.expected += unescape(text[1:]) + end
            elif mark == "!":
                session.closes()
                closed = True
            else:
                raise Failure("not a line of a transcript: %r" % line)
        if not closed:
            session.to_send += b"mn\r\n"
            session.expected += "MN\r\n"
            session.flush()
            if session.received:
                session.differ()
    except Failure as failure:
        print("%s:%d (split %d): %s" % (path, number, split, failure), file=sys.stderr)
        return False
    finally:
        session.socket.close()
    return True


def main():
    address, who, split = sys.argv[1], sys.argv[2], int(sys.argv[3])
    results = [play(address, who, split, path) for path in sys.argv[4:]]
    print("%d transcripts, %d differ" % (len(results), results.count(False)))
    sys.exit(0 if all(results) and results else 1)


main()

#!/usr/bin/python3
"""Ends a loaded server in many ways and looks at what is there afterwards.

    restarts.py GOBLIN DIRECTORY [--kills N] [--rolls N] [--objects N] [--seed N]

--kills: `goblin serve --durability written`, loaded by clients of memcached and of HTTP, each with
keys of its own: sets, deletes, values from nothing to half a megabyte. It is killed by SIGKILL at a
drawn moment, now and then just after SIGTERM, and started again on the same store. Every key must
hold the last state that was acknowledged, or the one that was asked for after it, to the last byte,
and by either protocol.

--rolls: a cache with OBJECTS objects in it is ended by SIGTERM while clients read, and started again.
At least 99 of 100 must be there, each with the right bytes.
"""
import argparse
import hashlib
import http.client
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

PATIENCE_S = 60
CLIENTS = 3  # of each protocol
KEYS = 40  # of each client


def value_of(key, number, size):
    return hashlib.shake_128(b"%s %d" % (key.encode(), number)).digest(size)


class Memcache:
    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def line(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("closed")
        return line[:-2]

    def set(self, key, value):
        self.socket.sendall(b"set %s 0 0 %d\r\n%s\r\n" % (key.encode(), len(value), value))
        answer = self.line()
        if answer != b"STORED":
            raise AssertionError("set was answered %r" % answer)

    def delete(self, key):
        self.socket.sendall(b"delete %s\r\n" % key.encode())
        answer = self.line()
        if answer not in (b"DELETED", b"NOT_FOUND"):
            raise AssertionError("delete was answered %r" % answer)

    def get(self, key):
        self.socket.sendall(b"get %s\r\n" % key.encode())
        head = self.line()
        if head == b"END":
            return None
        size = int(head.split()[3])
        value = self.file.read(size + 2)[:-2]
        if len(value) != size or self.line() != b"END":
            raise ConnectionError("closed in a value")
        return value

    def close(self):
        self.file.close()
        self.socket.close()


class Http:
    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)

    def ask(self, method, key, body=None):
        self.connection.request(method, "/" + key, body)
        response = self.connection.getresponse()
        return response.status, response.read()

    def set(self, key, value):
        status, _ = self.ask("PUT", key, value)
        if status not in (201, 204):
            raise AssertionError("PUT was answered %d" % status)

    def delete(self, key):
        status, _ = self.ask("DELETE", key)
        if status not in (204, 404):
            raise AssertionError("DELETE was answered %d" % status)

    def get(self, key):
        status, body = self.ask("GET", key)
        if status not in (200, 404):
            raise AssertionError("GET was answered %d" % status)
        return body if status == 200 else None

    def close(self):
        self.connection.close()


class Server:
    def __init__(self, goblin, directory, options):
        self.command = [goblin, "serve", "--store", os.path.join(directory, "store"),
                        "--memcache", "127.0.0.1:0", "--http", "127.0.0.1:0", "--quiet",
                        "--port-file", os.path.join(directory, "ports")] + options
        self.ports = os.path.join(directory, "ports")
        self.process = None
        self.addresses = {}

    def start(self):
        if os.path.exists(self.ports):
            os.remove(self.ports)
        self.process = subprocess.Popen(self.command)
        until = time.monotonic() + PATIENCE_S
        while not os.path.exists(self.ports):
            if self.process.poll() is not None or time.monotonic() > until:
                raise AssertionError("the server did not start")
            time.sleep(0.01)
        with open(self.ports) as file:
            self.addresses = dict(line.split() for line in file)

    def client(self, kind):
        if kind == "http":
            return Http(self.addresses["http"])
        return Memcache(self.addresses["memcache"])

    def end(self, number):
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


# ---- kills ---------------------------------------------------------------------------------------

class State:
    """What a key may hold: (number, size) of a value, or None."""

    def __init__(self):
        self.acknowledged = None
        self.asked = None
        self.doubtful = False


class Worker(threading.Thread):
    def __init__(self, server, kind, name, states, seed):
        super().__init__()
        self.server, self.kind, self.states = server, kind, states
        self.random = random.Random(seed)
        self.keys = ["%s-%d" % (name, i) for i in range(KEYS)]
        self.writes = 0
        self.fault = None

    def size(self):
        if self.random.random() < 0.9:
            return self.random.randrange(3000)
        return self.random.randrange(500000)

    def run(self):
        try:
            client = self.server.client(self.kind)
            while True:
                self.write(client)
        except AssertionError as fault:
            self.fault = fault
        except (OSError, http.client.HTTPException):
            pass  # it was killed

    def write(self, client):
        key = self.random.choice(self.keys)
        state = self.states[key]
        number = self.random.getrandbits(60)
        wanted = None if self.random.random() < 0.1 else (number, self.size())
        state.asked, state.doubtful = wanted, True
        if wanted is None:
            client.delete(key)
        else:
            client.set(key, value_of(key, *wanted))
        state.acknowledged, state.doubtful = wanted, False
        self.writes += 1


def holds(key, state, value):
    """The state of two possible ones that the key is in."""
    for wanted in [state.acknowledged] + ([state.asked] if state.doubtful else []):
        if (value is None) == (wanted is None) and (
                value is None or value == value_of(key, *wanted)):
            return wanted
    raise AssertionError("%s holds %s; acknowledged: %s; asked for: %s" % (
        key, "nothing" if value is None else "%d bytes" % len(value), state.acknowledged,
        state.asked if state.doubtful else "nothing else"))


def look_over(server, states):
    clients = [server.client("memcache"), server.client("http")]
    for key, state in states.items():
        found = [holds(key, state, client.get(key)) for client in clients]
        if found[0] != found[1]:
            raise AssertionError("%s: the protocols disagree" % key)
        state.acknowledged, state.doubtful = found[0], False
    for client in clients:
        client.close()


def kill_it(goblin, directory, kills, draw):
    server = Server(goblin, directory, ["--store-mode", "store", "--store-size", "1G", "--memory",
                                        "64M", "--durability", "written", "--threads", "2"])
    states = {}
    writes = 0
    server.start()
    for life in range(kills):
        workers = []
        for i in range(CLIENTS * 2):
            kind = ("memcache", "http")[i % 2]
            workers.append(Worker(server, kind, "%s%d" % (kind, i), states, draw.getrandbits(60)))
            for key in workers[-1].keys:
                states.setdefault(key, State())
        for worker in workers:
            worker.start()
        until = time.monotonic() + PATIENCE_S
        least = draw.randrange(100, 300)  # so that a slow machine has something to lose too
        while sum(worker.writes for worker in workers) < least and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(draw.random() * 0.3)
        if draw.random() < 0.25:
            server.process.send_signal(signal.SIGTERM)
            time.sleep(draw.random() * 0.02)
        server.end(signal.SIGKILL)
        for worker in workers:
            worker.join(PATIENCE_S)
            if worker.is_alive():
                raise AssertionError("a client does not notice that the server is gone")
            if worker.fault is not None:
                raise worker.fault
            writes += worker.writes
        server.start()
        look_over(server, states)
    if server.end(signal.SIGTERM) != 0:
        raise AssertionError("the server did not end well")
    print("%d kills, %d writes acknowledged, all there" % (kills, writes))


# ---- rolling restarts ----------------------------------------------------------------------------

class Reader(threading.Thread):
    def __init__(self, server, kind, sizes, seed):
        super().__init__()
        self.server, self.kind, self.sizes = server, kind, sizes
        self.random = random.Random(seed)
        self.reads = 0
        self.fault = None

    def run(self):
        try:
            client = self.server.client(self.kind)
            while True:
                key = "object%d" % self.random.randrange(len(self.sizes))
                value = client.get(key)
                if value is not None and value != value_of(key, 0, self.sizes[int(key[6:])]):
                    raise AssertionError("%s has wrong bytes" % key)
                self.reads += 1
        except AssertionError as fault:
            self.fault = fault
        except (OSError, http.client.HTTPException):
            pass  # it has ended


def roll_it(goblin, directory, rolls, objects, draw):
    server = Server(goblin, directory, ["--store-size", "1G", "--memory", "64M", "--threads", "2"])
    server.start()
    sizes = [draw.randrange(4000) if draw.random() < 0.95 else draw.randrange(400000)
             for _ in range(objects)]
    clients = [server.client("memcache"), server.client("http")]
    for i, size in enumerate(sizes):
        clients[i % 2].set("object%d" % i, value_of("object%d" % i, 0, size))
    for client in clients:
        client.close()
    for _ in range(rolls):
        readers = [Reader(server, kind, sizes, draw.getrandbits(60))
                   for kind in ("memcache", "http", "memcache", "http")]
        for reader in readers:
            reader.start()
        until = time.monotonic() + PATIENCE_S
        while min(reader.reads for reader in readers) < 20 and time.monotonic() < until:
            time.sleep(0.01)
        if server.end(signal.SIGTERM) != 0:
            raise AssertionError("the server did not end well")
        server.start()
        for reader in readers:
            reader.join(PATIENCE_S)
            if reader.fault is not None:
                raise reader.fault
        client = server.client("memcache")
        hits = 0
        for i, size in enumerate(sizes):
            value = client.get("object%d" % i)
            if value is not None and value != value_of("object%d" % i, 0, size):
                raise AssertionError("object%d has wrong bytes" % i)
            hits += value is not None
        client.close()
        print("after a restart %d of %d are there" % (hits, objects))
        if hits < objects * 0.99:
            raise AssertionError("too few")
    server.end(signal.SIGTERM)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("goblin")
    parser.add_argument("directory")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--rolls", type=int, default=0)
    parser.add_argument("--objects", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    options = parser.parse_args()
    print("seed %d" % options.seed, flush=True)
    draw = random.Random(options.seed)
    try:
        for name, count, play in (("kills", options.kills, kill_it),
                                  ("rolls", options.rolls,
                                   lambda *what: roll_it(*what[:3], options.objects, what[3]))):
            directory = os.path.join(options.directory, name)
            if count > 0:
                os.mkdir(directory)
                play(options.goblin, directory, count, draw)
    except AssertionError as fault:
        print("FAILED: %s" % fault, file=sys.stderr)
        os._exit(1)  # clients may still wait


main()

#!/usr/bin/python3
"""A Python client against the server:
client.py pylibmc|pymemcache|pymemcache-tls|memcache HOST PORT FILE PHASE

PHASE first: everything that the client can do, FILE as a large value among it.
PHASE after: what the first left behind, after the server's clock has moved on by 100 s.
pymemcache-tls trusts the certificate in CA and no other.
"""
import os
import ssl
import sys

which, host, port, path, phase = sys.argv[1:]
large = open(path, "rb").read()
name = which
checks = 0


def check(got, wanted):
    global checks
    checks += 1
    if isinstance(wanted, bytes) and isinstance(got, str):
        got = got.encode()
    assert got == wanted, "%r, not %r" % (str(got)[:200], str(wanted)[:200])


def key(text):
    return "%s-%s" % (name, text)


if which in ("pymemcache", "pymemcache-tls"):
    from pymemcache.client.base import Client
    tls = ssl.create_default_context(cafile=os.environ["CA"]) if which.endswith("tls") else None
    client = Client((host, int(port)), default_noreply=False, timeout=60, tls_context=tls)
    set_many = lambda values, time: client.set_many(values, expire=time)
    touch = lambda k, time: client.touch(k, expire=time)
    get_cas, do_cas = client.gets, lambda k, value, token: client.cas(k, value, token)
    MISSED_CAS = False
elif which == "pylibmc":
    import pylibmc
    client = pylibmc.Client(["%s:%s" % (host, port)], binary=False,
                            behaviors={"cas": True, "tcp_nodelay": True})
    set_many, touch = client.set_multi, client.touch
    client.get_many = client.get_multi
    get_cas = client.gets
    do_cas = lambda k, value, token: client.cas(k, value, token)
    MISSED_CAS = False
else:
    import memcache
    client = memcache.Client(["%s:%s" % (host, port)], cache_cas=True, socket_timeout=60,
                             server_max_value_length=1 << 26)
    set_many, touch = client.set_multi, lambda k, time: client.touch(k, time)
    client.get_many = client.get_multi
    get_cas = lambda k: (client.gets(k), None)
    do_cas = lambda k, value, token: client.cas(k, value)
    MISSED_CAS = 0


def first():
    check(bool(client.set(key("a"), b"one")), True)
    check(client.get(key("a")), b"one")
    check(client.get(key("absent")), None)
    check(bool(client.add(key("a"), b"no")), False)
    check(bool(client.add(key("b"), b"two")), True)
    check(bool(client.replace(key("c"), b"no")), False)
    check(bool(client.replace(key("b"), b"zwei")), True)
    check(client.get_many([key("a"), key("b"), key("c")]), {key("a"): b"one", key("b"): b"zwei"})
    many = {key("m%d" % i): b"%d" % i * i for i in range(200)}
    check(list(set_many(many, 0)), [])
    check(client.get_many(list(many)), many)
    check(bool(client.append(key("a"), b"+")), True)
    check(bool(client.prepend(key("a"), b"-")), True)
    check(client.get(key("a")), b"-one+")
    client.set(key("n"), "5")
    check(client.incr(key("n"), 7), 12)
    check(client.decr(key("n"), 20), 0)
    client.set(key("cas"), b"old")
    value, token = get_cas(key("cas"))
    check(value, b"old")
    check(bool(do_cas(key("cas"), b"new", token)), True)
    value, token = get_cas(key("cas"))
    check(value, b"new")
    client.set(key("cas"), b"between")
    check(do_cas(key("cas"), b"late", token), MISSED_CAS)
    check(client.get(key("cas")), b"between")
    check(bool(client.delete(key("b"))), True)
    check(client.get(key("b")), None)
    check(bool(client.set(key("large"), large)), True)
    check(client.get(key("large")), large)
    check(bool(client.set(key("empty"), b"")), True)
    check(client.get(key("empty")), b"")
    check(bool(client.set(key("short"), b"s", 50)), True)
    check(bool(client.set(key("touched"), b"t", 50)), True)
    check(bool(touch(key("touched"), 500)), True)
    check(client.get(key("short")), b"s")


def after():
    check(client.get(key("short")), None)
    check(client.get(key("touched")), b"t")
    check(client.get(key("large")), large)


first() if phase == "first" else after()
print("%s: %d checks" % (name, checks))

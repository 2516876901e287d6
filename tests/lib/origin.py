#!/usr/bin/env python3
"""An origin for tests: origin.py PORT_FILE [CERTIFICATE KEY]

A path's query says what is answered: size=N (bytes of a pattern of the path), cc=Cache-Control,
etag=1, lm=1 (Last-Modified), expires=SECONDS, vary=FIELD, status=N, delay=SECONDS before the head,
slow=SECONDS between pieces, cut=N (bytes, then the connection is closed), chunked=1, cookie=1,
private fields by h=Name:value. What concerns all of it is set by PUT to /_set?NAME=VALUE:
fail=1 (500 to everybody), drop=1 (close without an answer), version=N (the pattern and the tag),
cc=…, hold=1 (no answer before hold=0). GET /_count tells how many requests there were, /_last the
fields of the last one.
"""
import email.utils
import http.server
import os
import socketserver
import ssl
import sys
import threading
import time
import urllib.parse

state = {"version": "1"}
lock = threading.Lock()
count = 0
last = ""
held = threading.Event()
held.set()
BORN = 1600000000


def pattern(path, size):
    seed = (path + state["version"]).encode()
    block = (seed * (65536 // len(seed) + 1))[:65536]
    return (block * (size // 65536 + 1))[:size]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def text(self, text):
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        query = urllib.parse.urlsplit(self.path).query
        state.update(urllib.parse.parse_qsl(query, keep_blank_values=True))
        if state.get("hold", "0") == "1":
            held.clear()
        else:
            held.set()
        self.text("")

    def do_GET(self):
        global count, last
        if self.path == "/_count":
            self.text(str(count))
            return
        if self.path == "/_last":
            self.text(last)
            return
        with lock:
            count += 1
            last = self.requestline + "\n" + str(self.headers)
        held.wait(60)
        if state.get("drop", "0") == "1":
            self.close_connection = True
            return
        parts = urllib.parse.urlsplit(self.path)
        self.answer(parts.path, dict(urllib.parse.parse_qsl(parts.query)))

    def unchanged(self, ask, etag):
        if "etag" in ask and self.headers.get("If-None-Match") == etag:
            return True
        return "lm" in ask and "etag" not in ask and "If-Modified-Since" in self.headers

    def fields(self, ask, etag):
        cc = state.get("cc", "") or ask.get("cc", "")
        if cc:
            self.send_header("Cache-Control", cc)
        if "etag" in ask:
            self.send_header("ETag", etag)
        if "lm" in ask:
            self.send_header("Last-Modified", email.utils.formatdate(BORN, usegmt=True))
        if "expires" in ask:
            when = time.time() + int(ask["expires"])
            self.send_header("Expires", email.utils.formatdate(when, usegmt=True))
        if "vary" in ask:
            self.send_header("Vary", ask["vary"])
        if "cookie" in ask:
            self.send_header("Set-Cookie", "a=b")
        if "h" in ask:
            self.send_header(*ask["h"].split(":", 1))

    def answer(self, path, ask):
        time.sleep(float(ask.get("delay", 0)))
        etag = '"v%s"' % state["version"]
        status = int(ask.get("status", 200))
        if state.get("fail", "0") == "1":
            status = 500
        if status == 200 and self.unchanged(ask, etag):
            self.send_response(304)
            self.fields(ask, etag)
            self.end_headers()
            return
        if "vary" in ask:
            path += self.headers.get(ask["vary"], "-")
        body = pattern(path, int(ask.get("size", 100)))
        self.send_response(status)
        self.fields(ask, etag)
        self.send_header("Content-Type", "text/x-pattern")
        self.send_header("Connection", "X-Hop")
        self.send_header("X-Hop", "1")
        if "chunked" in ask:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.send_body(body, ask)

    def send_body(self, body, ask):
        cut = int(ask.get("cut", len(body)))
        for at in range(0, min(cut, len(body)), 65536):
            piece = body[at:min(at + 65536, cut)]
            if "chunked" in ask:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            else:
                self.wfile.write(piece)
            time.sleep(float(ask.get("slow", 0)))
        if cut < len(body):
            self.wfile.flush()
            self.close_connection = True
        elif "chunked" in ask:
            self.wfile.write(b"0\r\n\r\n")


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request, client_address):
        pass


server = Server(("127.0.0.1", 0), Handler)
if len(sys.argv) > 3:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[2], sys.argv[3])
    server.socket = context.wrap_socket(server.socket, server_side=True)
with open(sys.argv[1] + ".part", "w") as file:
    file.write("%d\n" % server.server_address[1])
os.rename(sys.argv[1] + ".part", sys.argv[1])
server.serve_forever()

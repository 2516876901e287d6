#!/usr/bin/python3
"""Stands between litmus and a server without WebDAV: mkcol.py ADDRESS:PORT PORT_FILE

Litmus wants a collection of its own made before it begins. MKCOL is answered here; every other byte
goes to the server and comes from it as it is.
"""
import socket
import sys
import threading


def pass_on(source, sink):
    try:
        while data := source.recv(65536):
            if data.startswith(b"MKCOL "):
                source.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
            else:
                sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


host, port = sys.argv[1].rsplit(":", 1)
listener = socket.create_server(("127.0.0.1", 0))
with open(sys.argv[2], "w") as file:
    file.write("%d\n" % listener.getsockname()[1])
while True:
    client = listener.accept()[0]
    server = socket.create_connection((host, int(port)))
    for pair in ((client, server), (server, client)):
        threading.Thread(target=pass_on, args=pair, daemon=True).start()

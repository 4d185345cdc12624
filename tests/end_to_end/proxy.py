"""A connection to the node that can be made to break."""
import select
import socket
import threading
import urllib.parse


class Proxy:
    """Forwards to the node at `url`. `passes(number, piece)` is asked for each piece of an answer, with the number of the
    connection from 1: if it says no, the piece is swallowed and the connection cut; if it says LAST, cut behind it."""

    LAST = "last"

    def __init__(self, url, passes):
        self.node = urllib.parse.urlsplit(url)
        self.passes = passes
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.accepted = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        self.listener.close()

    def _serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._serve_one, args=(client, self.accepted), daemon=True).start()

    def _serve_one(self, client, number):
        try:
            self._forward(client, number)
        except OSError:
            pass  # one of the two went away

    def _forward(self, client, number):
        node = socket.create_connection((self.node.hostname, self.node.port))
        with client, node:
            while True:
                ready, _, _ = select.select([client, node], [], [])
                for source in ready:
                    piece = source.recv(65536)
                    passes = piece and (source is client or self.passes(number, piece))
                    if not passes:
                        return
                    # The node answers to its own name only.
                    piece = piece.replace(self.url[7:].encode(), self.node.netloc.encode())
                    (client if source is node else node).sendall(piece)
                    if passes == self.LAST:
                        return

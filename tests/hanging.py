"""A service that hangs: it takes every connection and never says a word."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hanging() -> Iterator[tuple[int, list[socket.socket]]]:
    """Its port, and the connections that it took so far."""
    taken: list[socket.socket] = []
    door = socket.create_server(("127.0.0.1", 0))

    def take() -> None:
        while door.fileno() >= 0:
            try:
                taken.append(door.accept()[0])
            except OSError:
                return

    threading.Thread(target=take, daemon=True).start()
    try:
        yield door.getsockname()[1], taken
    finally:
        door.close()
        for one in taken:
            one.close()

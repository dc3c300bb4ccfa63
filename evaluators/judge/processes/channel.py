"""Messages between the judge and its processes: length-prefixed JSON over a Unix socket, with file descriptors alongside.

JSON, because the other end may be hostile: nothing it sends is ever executed or unpickled.
"""

from __future__ import annotations

import array
import json
import os
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

LIMIT = 64 << 20
FDS_PER_MESSAGE = 120


class Closed(Exception):
    """The other end is gone."""


class Channel:
    """One end of a socket pair. Towards a hostile end ``limit`` bounds its messages (bytes), and descriptors are refused."""

    def __init__(self, sock: socket.socket, limit: int = LIMIT, descriptors: bool = True) -> None:
        self.sock = sock
        self.limit = limit
        self.descriptors = descriptors
        self.pending = bytearray()
        self.fds: list[int] = []

    def fileno(self) -> int:
        return self.sock.fileno()

    def send(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Send one message; raises :class:`Closed`. Descriptors beyond one packet's limit travel with one-byte preludes."""
        body = json.dumps(message).encode()
        data = struct.pack("<I", len(body)) + body
        try:
            rest = list(fds)
            start = 0
            while rest:
                packet, rest = rest[:FDS_PER_MESSAGE], rest[FDS_PER_MESSAGE:]
                ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", packet))]
                self.sock.sendmsg([data[start : start + 1]], ancillary)
                start += 1
            self.sock.sendall(data[start:])
        except (BrokenPipeError, ConnectionError, OSError) as error:
            raise Closed(str(error)) from None

    def receive(self, timeout: float | None = None) -> dict[str, Any]:
        """The next message. Raises :class:`Closed` at end of stream or on nonsense, ``TimeoutError`` after ``timeout`` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            message = self.take()
            if message is not None:
                return message
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            ready, _, _ = select.select([self.sock], [], [], left)
            if not ready:
                raise TimeoutError
            self.read()

    def read(self) -> None:
        """Read what has arrived, without parsing it; raises :class:`Closed`."""
        space = socket.CMSG_SPACE(FDS_PER_MESSAGE * 4)
        try:
            data, ancillary, _, _ = self.sock.recvmsg(1 << 20, space)
        except (ConnectionError, OSError) as error:
            raise Closed(str(error)) from None
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                found = array.array("i")
                found.frombytes(payload[: len(payload) - len(payload) % found.itemsize])
                self.fds += found.tolist()
        if self.fds and not self.descriptors:
            for fd in self.take_fds():  # they would pile up: nothing on this side asks for any
                os.close(fd)
            raise Closed("descriptors that nobody asked for")
        if not data:
            raise Closed("end of stream")
        self.pending += data

    def take(self) -> dict[str, Any] | None:
        """A complete message that was already read, or ``None``."""
        if len(self.pending) < 4:
            return None
        (size,) = struct.unpack_from("<I", self.pending)
        if size > self.limit:
            raise Closed(f"message of {size} bytes")
        if len(self.pending) < 4 + size:
            return None
        body = bytes(self.pending[4 : 4 + size])
        del self.pending[: 4 + size]
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            raise Closed("not a message") from None
        if not isinstance(message, dict):
            raise Closed("not a message")
        return message

    def take_fds(self) -> list[int]:
        """Descriptors received so far, handed over to the caller."""
        found, self.fds = self.fds, []
        return found

    def idle(self) -> bool:
        """Whether nothing has arrived: between requests, anything from the other end is a message nobody asked for."""
        return not self.pending and not select.select([self.sock], [], [], 0)[0]

    def close(self) -> None:
        """Close the socket and any descriptor nobody took."""
        for fd in self.take_fds():
            os.close(fd)
        self.sock.close()


def pair(limit: int = LIMIT, descriptors: bool = True) -> tuple[Channel, Channel]:
    """Two connected channels; ``limit`` and ``descriptors`` are what the first accepts."""
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(a, limit, descriptors), Channel(b)

"""Frames between the trainer and its workers: four bytes of length, then JSON in ASCII. Never pickle.

Left out: any schema. Both ends ship in one package and each checks what it reads where it uses it.
"""

from __future__ import annotations

import json
import os
import struct

TYPE_CHECKING = False  # workers do not load `typing`
if TYPE_CHECKING:
    from typing import Any

_HEAD = struct.Struct(">I")


def pack(message: Any) -> bytes:
    """One frame. Text may hold any code point, lone surrogates included."""
    body = json.dumps(message, separators=(",", ":")).encode("ascii")
    return _HEAD.pack(len(body)) + body


def send(link: int, frame: bytes) -> None:
    """Writes whole frames to a blocking descriptor."""
    view = memoryview(frame)
    while view:
        view = view[os.write(link, view) :]


def receive(link: int) -> bytes | None:
    """The body of the next frame from a blocking descriptor; None when the other end has closed."""
    head = _exactly(link, _HEAD.size)
    return None if head is None else _exactly(link, _HEAD.unpack(head)[0])


def _exactly(link: int, size: int) -> bytes | None:
    pieces = []
    while size:
        piece = os.read(link, min(size, 1 << 20))
        if not piece:
            return None
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


class Frames:
    """Takes bytes as they come and gives whole messages."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, piece: bytes) -> list[Any]:
        self._pending += piece
        messages = []
        start = 0
        while len(self._pending) - start >= _HEAD.size:
            size = _HEAD.unpack_from(self._pending, start)[0]
            end = start + _HEAD.size + size
            if len(self._pending) < end:
                break
            messages.append(json.loads(self._pending[start + _HEAD.size : end]))
            start = end
        del self._pending[:start]
        return messages

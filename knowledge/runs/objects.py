"""Content-addressed objects: sources, prompts, replies, profiles and reports, each stored once under the hash of its bytes."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

import fsspec

from knowledge.errors import ObjectDamagedError, ObjectNotFoundError, ObjectsUnavailableError


class ObjectStore:
    """A folder of immutable objects, local or at any fsspec URL (``s3://…``). Raises
    :class:`ObjectsUnavailableError` where that names nothing that can be opened.

    An object's reference is the hex SHA-256 of its bytes, so storing the same bytes again costs nothing and a damaged object
    is noticed on reading.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self._fs, self._root = fsspec.core.url_to_fs(url)
        except (ValueError, ImportError, OSError) as error:
            raise ObjectsUnavailableError(url, str(error)) from error

    def _path(self, ref: str) -> str:
        return f"{self._root}/{ref[:2]}/{ref[2:]}"

    def put(self, data: bytes) -> str:
        """Store bytes; returns their reference. Written beside and renamed, so that a reader never sees half an object."""
        ref = hashlib.sha256(data).hexdigest()
        path = self._path(ref)
        if not self._fs.exists(path):
            self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            partial = f"{path}.{uuid.uuid4().hex}"
            self._fs.pipe_file(partial, data)
            self._fs.mv(partial, path)
        return ref

    def get(self, ref: str) -> bytes:
        """The bytes of an object. Raises :class:`ObjectNotFoundError` or :class:`ObjectDamagedError`."""
        try:
            data = bytes(self._fs.cat_file(self._path(ref)))
        except FileNotFoundError:
            raise ObjectNotFoundError(ref, self.url) from None
        if hashlib.sha256(data).hexdigest() != ref:
            raise ObjectDamagedError(ref, self._path(ref))
        return data

    def put_text(self, text: str) -> str:
        """Store text as UTF-8; returns its reference."""
        return self.put(text.encode())

    def get_text(self, ref: str) -> str:
        """The text of an object."""
        return self.get(ref).decode()

    def put_json(self, value: Any) -> str:
        """Store a plain value as canonical JSON; returns its reference."""
        return self.put_text(json.dumps(value, sort_keys=True, ensure_ascii=False, default=str))

    def get_json(self, ref: str) -> Any:
        """The plain value of a JSON object."""
        return json.loads(self.get(ref))

"""The header of weights that are still on the hub, read by HTTP range: before a download it says
what they are and whether they fit.

`HttpSource` is a source like a file (`app/gguf/source.py`): each `read_at` is one request for one
range, over one connection, after one redirect that is remembered. It has a cap of bytes, and it
stops where the answer is not exactly what was asked for: another size, another version, a whole
file in the place of a part.
"""

from __future__ import annotations

import re
from typing import Final

import httpx2

from app.gguf.header import Header, read_header_of
from app.hub.address import origin_of
from app.hub.client import Hub
from app.hub.faults import FAILURES, HubFault, fault_of
from app.hub.records import HubFile
from app.hub.transport import read_whole

MAX_HEADER_BYTES: Final = 48 * 1024 * 1024
"""Of all ranges of one file together. A vocabulary of 262,144 tokens takes about 10 MiB."""
PIECE_DEADLINE_S: Final = 180.0
"""A piece of 4 MiB over a slow line."""
MAX_PARTS: Final = 64
_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


class HttpSource:
    """One part of weights on the hub."""

    def __init__(
        self, hub: Hub, file: HubFile, part: int = 0, *, max_bytes: int = MAX_HEADER_BYTES
    ) -> None:
        self.name = file.names[part].rpartition("/")[2]
        self.size_bytes = file.sizes[part]
        self._hub = hub
        self._repo_id = file.repo_id
        self._url = hub.url(file, part)
        self._at = ""
        self._etag = ""
        self._left = max_bytes

    def read_at(self, offset: int, count: int) -> bytes:
        """The bytes from `offset` on; fewer than `count` only at the end. Raises HubFault."""
        count = min(count, self.size_bytes - offset)
        if count <= 0:
            return b""
        if count > self._left:
            raise self._refused("it is implausibly large. Choose another file")
        headers = {"Range": f"bytes={offset}-{offset + count - 1}", "Accept-Encoding": "identity"}
        data = self._part(headers, offset, count)
        self._left -= len(data)
        return data

    def close(self) -> None:
        """Nothing is held between two requests but a connection of the client's."""

    def _part(self, headers: dict[str, str], offset: int, count: int) -> bytes:
        response = self._answer(headers)
        try:
            if response.status_code != 206:
                raise self._refused("the hub doesn't send parts of files. Try again later")
            self._check(response, offset, count)
            data = read_whole(response, count, PIECE_DEADLINE_S)
        except FAILURES as error:
            raise fault_of(error, self._hub.asked(self._repo_id, self.name)) from None
        finally:
            response.close()
        if len(data) != count:
            raise self._refused("the hub's response was cut short. Try again")
        return data

    def _check(self, response: httpx2.Response, offset: int, count: int) -> None:
        said = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        expected = (offset, offset + count - 1, self.size_bytes)
        etag = response.headers.get("ETag", "")
        is_packed = response.headers.get("Content-Encoding", "identity") != "identity"
        if said is None or tuple(map(int, said.groups())) != expected or is_packed:
            raise self._refused("the file doesn't match the listing. Reload the list of files")
        if self._etag and etag != self._etag:
            raise self._refused(
                "the file changed while it was being read. Reload the list of files"
            )
        self._etag = etag

    def _answer(self, headers: dict[str, str]) -> httpx2.Response:
        """One request; where its signed address has run out, one more by the hub's own."""
        if self._at:
            response = self._send(self._at, headers)
            if response.status_code not in (401, 403, 404, 410):
                return self._good(response, has_token=False)
            response.close()
        return self._hub.with_token(lambda token: self._first(token or "", headers))

    def _first(self, token: str, headers: dict[str, str]) -> httpx2.Response:
        own = {"Authorization": f"Bearer {token}"} if token else {}
        response = self._good(self._send(self._url, headers | own), has_token=bool(token))
        at = str(response.request.url)
        # An address elsewhere is signed: it needs no token, and none goes there.
        self._at = at if origin_of(at) != origin_of(self._url) else ""
        return response

    def _good(self, response: httpx2.Response, *, has_token: bool) -> httpx2.Response:
        if response.status_code < 300:
            return response
        response.close()
        asked = self._hub.asked(self._repo_id, self.name, has_token=has_token)
        raise fault_of(response, asked)

    def _send(self, url: str, headers: dict[str, str]) -> httpx2.Response:
        try:
            return self._hub.open(url, headers)
        except FAILURES as error:
            raise fault_of(error, self._hub.asked(self._repo_id, self.name)) from None

    def _refused(self, words: str) -> HubFault:
        return HubFault("not_hub", f"The header of “{self.name}” can't be read: {words}.")


def headers_of(hub: Hub, file: HubFile) -> tuple[Header, ...]:
    """What weights on the hub say about themselves: the header of each part, in order.

    Raises HubFault, HeaderRefused for what is no GGUF, and CalledOff.
    """
    if len(file.names) > MAX_PARTS:
        words = f"the model has more than {MAX_PARTS} parts. Choose another file"
        raise HubFault("not_hub", f"The header of “{file.name}” can't be read: {words}.")
    return tuple(_of_part(hub, file, part) for part in range(len(file.names)))


def _of_part(hub: Hub, file: HubFile, part: int) -> Header:
    source = HttpSource(hub, file, part)
    try:
        return read_header_of(source)
    finally:
        source.close()

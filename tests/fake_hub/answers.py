"""How the fake hub answers: routes, the hub's errors, and bodies that can go wrong on purpose."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from fake_hub.acts import Act, Logged
from fake_hub.repos import FakeFile, FakeRepo

_PART = 64 * 1024
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_GATED = "Access to model {id} is restricted. You must have access to it and be authenticated."
_NOT_ON_THE_LIST = "Access to model {id} is restricted and you are not in the authorized list."


class Answer:
    """Status, headers and a body of known length, read piece by piece."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes | FakeFile = b"") -> None:
        self.status = status
        self.headers = headers
        self.start = 0
        self.file = body if isinstance(body, FakeFile) else None
        self.body = b"" if isinstance(body, FakeFile) else body
        self.end = body.size_bytes if isinstance(body, FakeFile) else len(body)

    @property
    def length(self) -> int:
        return self.end - self.start

    def parts(self) -> Iterator[bytes]:
        for at in range(self.start, self.end, _PART):
            count = min(_PART, self.end - at)
            yield self.file.read(at, count) if self.file else self.body[at : at + count]


def as_json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    shape = {"Content-Type": "application/json; charset=utf-8"} | (headers or {})
    return Answer(status, shape, json.dumps(value).encode())


def error(status: int, code: str, message: str) -> Answer:
    """An error as the hub words it: in headers and in JSON."""
    headers = {"X-Error-Message": message} | ({"X-Error-Code": code} if code else {})
    return as_json({"error": message}, status, headers)


class Handler(BaseHTTPRequestHandler):
    """One request after another of one connection."""

    protocol_version = "HTTP/1.1"
    server_version = "FakeHub/1"
    timeout = 30

    def log_message(self, *_: Any) -> None:
        """Requests are remembered, not printed."""

    def do_GET(self) -> None:
        self._serve()

    def do_HEAD(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._serve()

    # --- one request ----------------------------------------------------------------------------

    def _serve(self) -> None:
        url = urlsplit(self.path)
        self.url_path = unquote(url.path)
        self.query = parse_qs(url.query, keep_blank_values=True)
        hub, name = self.server.hub, self.server.name  # type: ignore[attr-defined]
        self.hub = hub
        logged = Logged(
            name,
            self.command,
            self.url_path,
            self.query,
            {key.lower(): value for key, value in self.headers.items()},
            time.monotonic(),
        )
        act: Act = hub.note(logged)
        if act.hold is not None:
            act.hold.wait(30)
        if act.delay_s:
            hub.ending.wait(act.delay_s)
        if act.close_after == -1:
            self.close_connection = True
            return
        answer = self._scripted(act) or (
            self._from_hub(logged) if name == "hub" else self._from_cdn()
        )
        try:
            self._send(answer, act)
        except OSError:  # the client went away
            self.close_connection = True

    def _scripted(self, act: Act) -> Answer | None:
        if act.location is not None:
            headers = {"Location": act.location, "Content-Type": "text/plain"}
            return Answer(act.status or 302, headers, b"Found. Redirecting.")
        if act.status is None and act.body is None:
            return None
        headers = {"Content-Type": "application/json; charset=utf-8"}
        return Answer(act.status or 200, headers, act.body or b"{}")

    # --- the hub --------------------------------------------------------------------------------

    def _from_hub(self, logged: Logged) -> Answer:
        account = self.hub.accounts.get(logged.token) if logged.token else None
        if logged.token and account is None:
            return error(401, "", "Invalid credentials in Authorization header")
        parts = [each for each in self.url_path.split("/") if each]
        if parts[:2] == ["api", "whoami-v2"]:
            return _whoami(account)
        if parts == ["api", "models"]:
            return self._models(account)
        if parts[:2] == ["api", "models"] and len(parts) >= 4:
            return self._of_repo(account, "/".join(parts[2:4]), parts[4:], self._api)
        if len(parts) >= 5 and parts[2] in ("resolve", "raw"):
            return self._of_repo(account, "/".join(parts[:2]), parts[2:], self._resolve)
        if len(parts) == 2:
            page = f"<html><h1>{html.escape(self.url_path)}</h1></html>".encode()
            return Answer(200, {"Content-Type": "text/html"}, page)
        return error(404, "", "Sorry, we can't find the page you are looking for.")

    def _models(self, account: Any) -> Answer:
        """`/api/models`: filters, sort, and pages by cursor."""
        sort = self._one("sort") or "trendingScore"
        found = [
            repo
            for repo in self.hub.sorted_repos(sort, self._one("direction") == "1")
            if self._is_listed(repo, account)
        ]
        cursor = self._one("cursor")
        start = int(base64.urlsafe_b64decode(cursor)) if cursor else 0
        size = min(int(self._one("limit") or self.hub.page_size), self.hub.page_size)
        expand = self.query.get("expand", []) + self.query.get("expand[]", [])
        page = [
            repo.listed(expand, self._one("full") in ("true", "True"))
            for repo in found[start : start + size]
        ]
        headers = {}
        if start + size < len(found):
            headers["Link"] = self._next_link(start + size)
        return as_json(page, headers=headers)

    def _is_listed(self, repo: FakeRepo, account: Any) -> bool:
        if repo.private and not (account and repo.id in account.may_read):
            return False
        words = (self._one("search") or "").lower().split()
        wanted = self.query.get("filter", [])
        author, low_high = self._one("author"), self._one("num_parameters")
        return (
            all(word in repo.id.lower() for word in words)
            and all(tag in repo.all_tags for tag in wanted)
            and author in (None, repo.author)
            and (low_high is None or _is_between(repo.n_parameters, low_high))
        )

    def _next_link(self, start: int) -> str:
        query = [(name, each) for name, values in self.query.items() for each in values]
        query = [pair for pair in query if pair[0] != "cursor"]
        cursor = base64.urlsafe_b64encode(str(start).encode()).decode()
        url = f"{self.hub.endpoint}{self.url_path}?{urlencode([*query, ('cursor', cursor)])}"
        return f'<{url}>; rel="next"'

    def _of_repo(
        self,
        account: Any,
        repo_id: str,
        rest: list[str],
        answer: Callable[[FakeRepo, list[str]], Answer],
    ) -> Answer:
        """The four ways in which a repository is not to be had, else its answer."""
        if repo_id in self.hub.renamed:
            target = self.path.replace(quote(repo_id), quote(self.hub.renamed[repo_id]), 1)
            return Answer(307, {"Location": target, "Content-Type": "text/plain"}, b"Moved")
        repo = self.hub.repos.get(repo_id)
        may_read = account is not None and repo_id in account.may_read
        if repo is None or (repo.private and not may_read):
            if account is None:
                return error(401, "RepoNotFound", "Invalid username or password.")
            return error(404, "RepoNotFound", "Repository not found")
        if repo.gated and not may_read and rest[:1] != [] and rest[0] in ("resolve", "raw"):
            if account is None:
                return error(401, "GatedRepo", _GATED.format(id=repo_id))
            return error(403, "GatedRepo", _NOT_ON_THE_LIST.format(id=repo_id))
        return answer(repo, rest)

    def _api(self, repo: FakeRepo, rest: list[str]) -> Answer:
        if rest and rest[0] == "tree":
            return self._tree(repo, rest)
        if rest[:1] == ["revision"] and rest[1] not in ("main", repo.commit):
            return error(404, "RevisionNotFound", f"Invalid rev id: {rest[1]}")
        if not rest or rest[0] == "revision":
            expand = self.query.get("expand", []) + self.query.get("expand[]", [])
            return as_json(repo.info(expand, self._one("blobs") in ("true", "True")))
        return error(404, "", "Not found")

    def _tree(self, repo: FakeRepo, rest: list[str]) -> Answer:
        if rest[1] not in ("main", repo.commit):
            return error(404, "RevisionNotFound", f"Invalid rev id: {rest[1]}")
        entries = repo.tree("/".join(rest[2:]), self._one("recursive") in ("true", "True"))
        cursor = self._one("cursor")
        start = int(base64.urlsafe_b64decode(cursor)) if cursor else 0
        size = int(self._one("limit") or 1000)
        headers = {}
        if start + size < len(entries):
            headers["Link"] = self._next_link(start + size)
        return as_json(entries[start : start + size], headers=headers)

    def _resolve(self, repo: FakeRepo, rest: list[str]) -> Answer:
        """Small files from here; weights by a redirect to the other server."""
        kind, revision, path = rest[0], rest[1], "/".join(rest[2:])
        if revision not in ("main", repo.commit):
            return error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        file = repo.file(path)
        if file is None:
            return error(404, "EntryNotFound", "Entry not found")
        headers = {
            "X-Repo-Commit": repo.commit,
            "Accept-Ranges": "bytes",
            "Content-Disposition": f"inline; filename*=UTF-8''{quote(path.split('/')[-1])}",
        }
        if not file.is_lfs or kind == "raw":
            kind_of = {"Content-Type": "text/plain; charset=utf-8", "ETag": f'"{file.etag}"'}
            return self._ranged(Answer(200, headers | kind_of, file), file)
        location = f"{self.hub.cdn}/repos/{repo.id}/{file.sha256}?Signature=s1gned&Expires=1"
        headers |= {
            "X-Linked-Size": str(file.size_bytes),
            "X-Linked-ETag": f'"{file.sha256}"',
            "Location": location,
            "Vary": "Accept",
            "Content-Type": "text/plain; charset=utf-8",
        }
        return Answer(302, headers, f"Found. Redirecting to {location}".encode())

    # --- the other server -----------------------------------------------------------------------

    def _from_cdn(self) -> Answer:
        file = self.hub.file_by_sha256(self.url_path.rsplit("/", 1)[-1])
        if file is None or "Signature" not in self.query:
            denied = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>"
            return Answer(403, {"Content-Type": "application/xml"}, denied)
        headers = {
            "Content-Type": "binary/octet-stream",
            "ETag": f'"{file.sha256}"',
            "Accept-Ranges": "bytes",
            "Last-Modified": "Fri, 01 Mar 2024 12:00:00 GMT",
        }
        return self._ranged(Answer(200, headers, file), file)

    def _ranged(self, answer: Answer, file: FakeFile) -> Answer:
        found = _RANGE.fullmatch(self.headers.get("Range") or "")
        if found is None or found.groups() == ("", ""):
            return answer
        if not self._is_unchanged(file):
            return answer
        size = file.size_bytes
        first, last = found.groups()
        start = int(first) if first else max(size - int(last), 0)
        end = min(int(last), size - 1) + 1 if first and last else size
        if start >= size or start >= end:
            return Answer(416, {"Content-Range": f"bytes */{size}"})
        answer.status, answer.start, answer.end = 206, start, end
        answer.headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        return answer

    def _is_unchanged(self, file: FakeFile) -> bool:
        """If-Range: with another ETag the whole file is sent."""
        wanted = self.headers.get("If-Range")
        return wanted is None or wanted == f'"{file.etag}"'

    # --- sending --------------------------------------------------------------------------------

    def _send(self, answer: Answer, act: Act) -> None:
        if act.ignore_range and answer.status == 206:
            answer.status, answer.start, answer.end = 200, 0, answer.file.size_bytes  # type: ignore[union-attr]
            answer.headers.pop("Content-Range", None)
        if act.gzip:
            answer = _compressed(answer)
        headers = {"Content-Length": str(answer.length)} | answer.headers
        if act.etag is not None:
            for name in ("ETag", "X-Linked-ETag"):
                if name in headers:
                    headers[name] = f'"{act.etag}"'
        if act.claimed_length is not None:
            headers["Content-Length"] = str(act.claimed_length)
        if act.endless or act.is_chunked:
            del headers["Content-Length"]
        if act.claimed_length is not None or act.endless:
            headers["Connection"] = "close"
        if act.is_chunked and not act.endless:
            headers["Transfer-Encoding"] = "chunked"
        headers |= act.headers
        self.send_response(answer.status)
        for name, value in headers.items():
            if name not in act.without:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self._send_body(answer, act)
        if act.claimed_length is not None or act.close_after is not None:
            self.close_connection = True

    def _send_body(self, answer: Answer, act: Act) -> None:
        limit = act.close_after if act.stall_after is None else act.stall_after
        sent = 0
        for part in self._cut(answer, act):
            whole = part if limit is None else part[: max(limit - sent, 0)]
            if whole:
                self._write(whole, act)
                sent += len(whole)
            if act.drip is not None and self.hub.ending.wait(act.drip[1]):
                self.close_connection = True
                return
            if limit is not None and sent >= limit:
                break
        if act.stall_after is not None:
            self._stall()
        elif act.is_chunked and act.close_after is None:
            self.wfile.write(b"0\r\n\r\n")

    def _write(self, part: bytes, act: Act) -> None:
        if not act.is_chunked or act.endless:
            self.wfile.write(part)
        else:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))

    def _cut(self, answer: Answer, act: Act) -> Iterator[bytes]:
        for part in answer.parts():
            step = len(part) if act.drip is None else act.drip[0]
            for at in range(0, len(part), step):
                yield part[at : at + step]
        while act.endless and not self.hub.ending.is_set():
            yield bytes(_PART)

    def _stall(self) -> None:
        """Until the client goes away, or the hub ends."""
        self.close_connection = True
        self.connection.settimeout(0.05)
        while not self.hub.ending.is_set():
            try:
                if self.connection.recv(1) == b"":
                    return
            except TimeoutError:
                continue

    def _one(self, name: str) -> str | None:
        return self.query.get(name, [None])[0]


def _compressed(answer: Answer) -> Answer:
    packed = gzip.compress(b"".join(answer.parts()))
    headers = answer.headers | {"Content-Encoding": "gzip"}
    return Answer(answer.status, headers, packed)


def _whoami(account: Any) -> Answer:
    if account is None:
        return error(401, "", "Invalid username or password.")
    auth = {
        "type": "access_token",
        "accessToken": {"displayName": "cutaway", "role": "read", "createdAt": "2024-03-01"},
    }
    return as_json({"type": "user", "name": account.name, "fullname": account.name, "auth": auth})


def _is_between(n_parameters: int | None, low_high: str) -> bool:
    """`num_parameters` is "min:6B,max:128B", either side optional."""
    if n_parameters is None:
        return False
    for bound in low_high.split(","):
        side, _, text = bound.partition(":")
        factor = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}.get(text[-1:], 1)
        number = float(text.rstrip("KMBT")) * factor
        if (side == "min" and n_parameters < number) or (side == "max" and n_parameters > number):
            return False
    return True

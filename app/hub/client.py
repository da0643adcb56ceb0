"""What the program asks a hub: search, a repository's files and card, who a token belongs to.

Every question ends in an answer or a `HubFault`; nothing is retried here but one thing: a token
that the hub does not know. Then the same is asked without it, since most weights are public, and
`Hub.note` says so. Names, tags and texts of a hub are untrusted: what is kept is bounded and of the
right type, and a listing with a damaged entry is a listing without it.

    hub = Hub(gate, "https://hub.example.org", lambda: token)
    page = hub.search(SearchWish("smol")).next_page()
    files = hub.look(page.repos[0].id).files
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from urllib.parse import urlencode

import httpx2

from app.gguf.local.finding import is_projector_name
from app.gguf.local.split_names import part_names, split_name
from app.gguf.quantisation import nominal_bits, quantisation_in_name
from app.hub import library
from app.hub.address import file_url, host_of, is_repo_id, origin_of, page_of
from app.hub.card import shown_card
from app.hub.faults import FAILURES, Asked, HubFault, fault_of, not_a_hub
from app.hub.gate import Gate
from app.hub.records import HubFile, HubRepo, HubSearchPage, RepoPage, SearchWish
from app.hub.tags import LANGUAGES
from app.hub.transport import plain_client, read_whole

if TYPE_CHECKING:
    from huggingface_hub import ModelInfo

T = TypeVar("T")
_log = logging.getLogger(__name__)

PAGE: Final = 20
MAX_LOOKED_AT: Final = 200
"""How many repositories a page looks through for those that filters of ours let pass."""
MAX_CARD_BYTES: Final = 1024 * 1024
MAX_TAGS: Final = 100
MAX_TEXT: Final = 200
MAX_REDIRECTS: Final = 5

_SORTS: Final[dict[str, str]] = {
    "downloads": "downloads",
    "likes": "likes",
    "trending": "trendingScore",
    "updated": "lastModified",
    "created": "createdAt",
}
_EXPAND: Final = (
    "author",
    "createdAt",
    "downloads",
    "gated",
    "gguf",
    "lastModified",
    "likes",
    "private",
    "tags",
)
_FRONT_MATTER: Final = re.compile(
    r"\A\ufeff?---[ \t]*\r?\n.*?^---[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE
)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


class Search:
    """One search, page by page. One thread at a time. A page that failed can be asked for again."""

    def __init__(self, hub: Hub, wish: SearchWish) -> None:
        self._hub = hub
        self._wish = wish
        self._next: str | None = hub.listing_url(wish)
        self._items: deque[Mapping[str, Any]] = deque()
        self._since: datetime | None = None
        if wish.updated_within_days is not None:
            self._since = datetime.now(UTC) - timedelta(days=wish.updated_within_days)

    def next_page(self) -> HubSearchPage:
        """The next `PAGE` repositories. Raises HubFault."""
        repos: list[HubRepo] = []
        n_seen = 0
        while len(repos) < PAGE and n_seen < MAX_LOOKED_AT:
            if not self._items:
                if self._next is None:
                    return HubSearchPage(tuple(repos))
                try:
                    items, self._next = self._hub.listing(self._next)
                except HubFault:
                    if repos:  # what is there is shown; the next call meets the fault again
                        return HubSearchPage(tuple(repos), has_more=True)
                    raise
                self._items.extend(items)
                continue
            n_seen += 1
            repo = repo_of(self._items.popleft())
            if repo is not None and self._passes(repo):
                repos.append(repo)
        return HubSearchPage(tuple(repos), has_more=bool(self._items) or self._next is not None)

    def _passes(self, repo: HubRepo) -> bool:
        most = self._wish.max_parameters
        if most is not None and repo.n_parameters is not None and repo.n_parameters > most:
            return False
        return self._since is None or (repo.updated is not None and repo.updated >= self._since)


class Hub:
    """One hub at one endpoint. Any thread may ask; each asks for itself."""

    def __init__(
        self,
        gate: Gate,
        endpoint: str,
        token_of: Callable[[], str | None],
        on_token_refused: Callable[[str], None] = lambda token: None,
        *,
        takes_token: bool = True,
    ) -> None:
        self.gate = gate
        self.endpoint = endpoint
        self._token_of = token_of
        self._on_token_refused = on_token_refused
        if takes_token:
            gate.token_origin = origin_of(endpoint)

    # --- questions ------------------------------------------------------------------------------

    def search(self, wish: SearchWish) -> Search:
        """A search; its `next_page` asks."""
        return Search(self, wish)

    def look(self, repo_id: str, revision: str = "") -> RepoPage:
        """A repository and its weights. Raises HubFault."""
        info = self.with_token(lambda token: self._info(repo_id, revision, token))
        with self.asking():
            return RepoPage(_of_info(info), files_of(info))

    def card(self, repo_id: str, revision: str = "main") -> str:
        """The model card as Markdown, without front matter, HTML and pictures; "" if there is none.

        Raises HubFault, of the kinds "gated" and "forbidden" too.
        """
        try:
            data = self.read_text(repo_id, revision, "README.md", MAX_CARD_BYTES)
        except HubFault as fault:
            if fault.kind == "not_found":
                return ""
            raise
        return shown_card(without_front_matter(data.decode("utf-8", "replace")))

    def who(self, token: str) -> str:
        """The account that a token belongs to. Raises HubFault."""
        with self.asking(has_token=True):
            answer = library.api(self.gate, self.endpoint).whoami(token=token)
            return str(answer["name"])[:MAX_TEXT]

    def check(self) -> None:
        """Raise HubFault if there is no hub at the endpoint."""
        with self.asking():
            self._listing(self.listing_url(SearchWish(gguf_only=False), limit=1), False)

    # --- addresses and tokens -------------------------------------------------------------------

    def url(self, file: HubFile, part: int = 0) -> str:
        """Where one part is downloaded; it redirects. Raises Refusal."""
        return file_url(self.endpoint, file.repo_id, file.revision, file.names[part])

    def headers_for(self, url: str) -> dict[str, str]:
        """The token, for an address at the endpoint; nothing for any other."""
        token = self._token_of()
        if token is None or origin_of(url) != origin_of(self.endpoint):
            return {}
        return {"Authorization": f"Bearer {token}"}

    def asked(self, repo_id: str = "", file_name: str = "", *, has_token: bool = False) -> Asked:
        """What `fault_of` needs to know of a request."""
        page = page_of(self.endpoint, repo_id) if repo_id else ""
        return Asked(host_of(self.endpoint), repo_id, page, file_name, has_token)

    def refuse_token(self) -> None:
        """The hub has answered that it does not know the present token."""
        token = self._token_of()
        if token is not None:
            self._on_token_refused(token)

    # --- how it asks ----------------------------------------------------------------------------

    def with_token(self, ask: Callable[[str | Literal[False]], T]) -> T:
        """Ask with the token, if there is one; without it where the hub does not know it."""
        token = self._token_of()
        with self.asking(has_token=token is not None):
            if token is None:
                return ask(False)
            try:
                return ask(token)
            except HubFault as fault:
                if fault.kind != "token_bad":
                    raise
                self._on_token_refused(token)
                refused = fault
            try:
                return ask(False)
            except HubFault as fault:
                # What is not public stays closed because the token is bad: that is to be said.
                closed = ("gated", "forbidden", "private_or_missing")
                raise (refused if fault.kind in closed else fault) from None

    def asking(self, *, has_token: bool = False) -> _Asking:
        """Around everything that may fail: only HubFault and CalledOff come out of it."""
        return _Asking(self.asked(has_token=has_token))

    def listing_url(self, wish: SearchWish, limit: int = PAGE) -> str:
        """Where the first page of a search is."""
        given: dict[str, str | list[str]] = {
            "search": wish.text.strip(),
            "author": wish.author.strip(),
            "filter": [
                *(["gguf"] if wish.gguf_only else []),
                *([f"license:{wish.licence}"] if wish.licence else []),
                *([wish.language] if wish.language else []),
            ],
            "sort": _SORTS[wish.sort],
            "limit": str(limit),
            "expand": list(_EXPAND),
        }
        query = urlencode({name: value for name, value in given.items() if value}, doseq=True)
        return f"{self.endpoint}/api/models?{query}"

    def listing(self, url: str) -> tuple[list[Mapping[str, Any]], str | None]:
        """One page of a listing, and where the next one is. Raises HubFault."""
        return self.with_token(lambda token: self._listing(url, token))

    def _listing(
        self, url: str, token: str | Literal[False]
    ) -> tuple[list[Mapping[str, Any]], str | None]:
        library.api(self.gate, self.endpoint)
        from huggingface_hub import get_session
        from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

        answer = get_session().get(url, headers=build_hf_headers(token=token))
        items = answer.json()
        if not isinstance(items, list):
            raise TypeError("no listing")
        following = answer.links.get("next", {}).get("url")
        return [item for item in items if isinstance(item, Mapping)], following

    def _info(self, repo_id: str, revision: str, token: str | Literal[False]) -> ModelInfo:
        if not is_repo_id(repo_id):
            words = f"“{repo_id[:MAX_TEXT]}” isn't a valid repository name. Write it as owner/name."
            raise HubFault("private_or_missing", words)
        api = library.api(self.gate, self.endpoint)
        return api.model_info(repo_id, revision=revision or None, files_metadata=True, token=token)

    def read_text(self, repo_id: str, revision: str, name: str, max_bytes: int) -> bytes:
        """A small file of a repository. Raises HubFault."""
        url = file_url(self.endpoint, repo_id, revision, name)

        def ask(token: str | Literal[False]) -> bytes:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            asked = self.asked(repo_id, name, has_token=bool(token))
            try:
                response = self.open(url, headers)
                if response.status_code >= 300:
                    response.close()
                    raise fault_of(response, asked)
                body = read_whole(response, max_bytes)
            except FAILURES as error:
                raise fault_of(error, asked) from None
            if "html" in response.headers.get("Content-Type", "").lower():
                raise not_a_hub(asked)
            return body

        return self.with_token(ask)

    def open(self, url: str, headers: Mapping[str, str]) -> httpx2.Response:
        """A streamed answer, redirects followed; to another origin without the token, and never
        from https to http. Whoever calls closes it. Raises what httpx2 and the gate raise."""
        client = self.gate.client(plain_client)
        sent = dict(headers)
        for _ in range(MAX_REDIRECTS + 1):
            request = client.build_request("GET", url, headers=sent)
            response = client.send(request, stream=True)
            if not response.has_redirect_location:
                return response
            response.close()
            target = request.url.join(response.headers["Location"])
            if request.url.scheme == "https" and target.scheme != "https":
                raise httpx2.UnsupportedProtocol("a redirect away from https", request=request)
            if origin_of(str(target)) != origin_of(str(request.url)):
                sent = {k: v for k, v in sent.items() if k.lower() != "authorization"}
            url = str(target)
        raise httpx2.TooManyRedirects("too many redirects", request=request)


class _Asking:
    """Turns what goes wrong inside into a HubFault."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, FAILURES):
            raise fault_of(error, self._asked) from None
        if isinstance(error, ValueError | TypeError | LookupError | AttributeError):
            # JSON, but not a hub's: what reads it stumbles over what is missing.
            _log.warning("an answer of %s cannot be read", self._asked.host, exc_info=error)
            raise not_a_hub(self._asked) from None


# --- what a hub says, made ours -----------------------------------------------------------------


def repo_of(item: Mapping[str, Any]) -> HubRepo | None:
    """One entry of a listing; None for one that cannot be used."""
    repo_id = item.get("id")
    if not isinstance(repo_id, str) or not is_repo_id(repo_id):
        return None
    tags = _words(item.get("tags"))
    gguf = item.get("gguf")
    gguf = gguf if isinstance(gguf, Mapping) else {}
    return HubRepo(
        id=repo_id,
        author=_text(item.get("author")) or repo_id.partition("/")[0],
        downloads=_count(item.get("downloads")) or 0,
        likes=_count(item.get("likes")) or 0,
        updated=_when(item.get("lastModified")),
        created=_when(item.get("createdAt")),
        licence=next((each[8:] for each in tags if each.startswith("license:")), ""),
        languages=tuple(each for each in tags if each in LANGUAGES),
        is_gated=bool(item.get("gated")),
        is_private=item.get("private") is True,
        n_parameters=_count(gguf.get("total")) or None,
        architecture=_text(gguf.get("architecture")),
        n_ctx_train=_count(gguf.get("context_length")) or None,
        tags=tags,
    )


def _of_info(info: ModelInfo) -> HubRepo:
    found = repo_of(
        {
            "id": info.id,
            "author": info.author,
            "downloads": info.downloads,
            "likes": info.likes,
            "lastModified": info.last_modified,
            "createdAt": info.created_at,
            "gated": info.gated,
            "private": info.private,
            "tags": info.tags,
            "gguf": info.gguf,
        }
    )
    if found is None:
        raise ValueError("no repository")
    return found


def files_of(info: ModelInfo) -> tuple[HubFile, ...]:
    """The weights among a repository's files: smallest first, projectors last."""
    commit = info.sha if isinstance(info.sha, str) and _COMMIT.fullmatch(info.sha) else "main"
    found: dict[str, tuple[int, str]] = {}
    for each in info.siblings or ():
        name = each.rfilename
        if isinstance(name, str) and name.lower().endswith(".gguf"):
            size = _count(each.lfs.size if each.lfs else each.size) or 0
            sha256 = str(each.lfs.sha256).lower() if each.lfs else ""
            found[name] = (size, sha256 if _SHA256.fullmatch(sha256) else "")
    files = [_file(info.id, commit, names, missing, found) for names, missing in _sets(found)]
    return tuple(sorted(files, key=lambda each: (each.is_projector, each.size_bytes, each.name)))


def _sets(names: Iterable[str]) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Names that belong together, with those that are missing among them."""
    there = set(names)
    done: set[str] = set()
    for name in sorted(there):
        folder, slash, plain = name.rpartition("/")
        split = split_name(plain)
        if split is None:
            yield [name], []
            continue
        if split.of > 10_000 or name in done:
            continue
        whole = [f"{folder}{slash}{each}" for each in part_names(split)]
        done.update(whole)
        yield [x for x in whole if x in there], [x for x in whole if x not in there]


def _file(
    repo_id: str,
    commit: str,
    names: Sequence[str],
    missing: Sequence[str],
    found: Mapping[str, tuple[int, str]],
) -> HubFile:
    quantisation = quantisation_in_name(names[0])
    return HubFile(
        repo_id=repo_id,
        revision=commit,
        names=tuple(names),
        sizes=tuple(found[name][0] for name in names),
        sha256s=tuple(found[name][1] for name in names),
        quantisation=quantisation,
        bits=nominal_bits(quantisation),
        is_projector=is_projector_name(names[0].rpartition("/")[2]),
        missing=tuple(missing),
    )


def without_front_matter(text: str) -> str:
    """Markdown without the YAML between two lines of `---` at its beginning."""
    return _FRONT_MATTER.sub("", text, count=1).strip()


def _text(value: object) -> str:
    return value[:MAX_TEXT] if isinstance(value, str) else ""


def _count(value: object) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value < 2**63 else None  # type: ignore[operator,return-value]


def _words(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        return ()
    return tuple(each[:MAX_TEXT] for each in value[:MAX_TAGS] if isinstance(each, str))


def _when(value: object) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)

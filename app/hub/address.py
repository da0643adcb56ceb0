"""Addresses: where the hub is, and what somebody pasted.

`read_address` takes what people copy: a page of a repository or of a file, a download's address,
a mirror's, `owner/name:Q4_K_M`, `hf.co/owner/name:Q4_K_M`. Nothing here asks the network.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from app.refusal import Refusal, bad_setting

DEFAULT_ENDPOINT: Final = "https://huggingface.co"
SHORT_HOST: Final = "hf.co"
ENVIRONMENT: Final = "HF_ENDPOINT"
MAX_LENGTH: Final = 2_000

_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._\-]*[A-Za-z0-9_])?"
_REPO: Final = re.compile(rf"{_PART}/{_PART}")
_QUANTISATION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,63}")
_COMMAND: Final = re.compile(
    r"(?:\$ )?(?:ollama (?:run|pull)|(?:\./)?llama-(?:cli|server)(?: -[\w-]+){0,20}? -hf) "
    r"(?P<address>[^\s]+)"
)
"""What hubs offer to be copied into a terminal."""
_SCHEME: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*)://")
_HOST_LIKE: Final = re.compile(r"[A-Za-z0-9\-]+(\.[A-Za-z0-9\-]+)+(:\d{1,5})?|localhost(:\d{1,5})?")
_NOT_WEIGHTS: Final = {"datasets": "a data set", "spaces": "a space", "collections": "a collection"}
_VIEWS: Final = ("tree", "blob", "resolve", "raw")


@dataclass(frozen=True, slots=True)
class HubAddress:
    """What an address points at. `revision` and `file_name` are "" where it does not say;
    `quantisation` is a tag ("Q4_K_M") that picks a file. `is_plain`: only `owner/name`, which may
    as well be words to search for."""

    repo_id: str
    revision: str = ""
    file_name: str = ""
    quantisation: str = ""
    is_plain: bool = False


def is_repo_id(text: str) -> bool:
    """Whether this can be the id of a repository ("owner/name"), by the hub's own rule."""
    return (
        len(text) <= 96
        and _REPO.fullmatch(text) is not None
        and "--" not in text
        and ".." not in text
        and not text.endswith(".git")
    )


def read_address(text: str, endpoint: str = DEFAULT_ENDPOINT) -> HubAddress | None:
    """What somebody pasted; None if it is not an address but words to search for.

    Raises Refusal for an address of something else.

    >>> read_address("hf.co/ana/tiny-GGUF:Q4_K_M").quantisation
    'Q4_K_M'
    >>> read_address("https://huggingface.co/ana/tiny/blob/main/a/b.gguf?x=1").file_name
    'a/b.gguf'
    """
    text = text.strip().strip("<>\"'“”")
    command = _COMMAND.match(text[:MAX_LENGTH])
    if command is not None:
        found = read_address(command["address"], endpoint)
        return replace(found, is_plain=False) if found is not None else None
    if not text or len(text) > MAX_LENGTH or any(c.isspace() for c in text):
        return None
    scheme_of = _SCHEME.match(text)
    if scheme_of is not None:
        scheme, rest = scheme_of["scheme"].lower(), text[scheme_of.end() :]
        if scheme == "hf":
            return _in_path(rest.removeprefix("models/"), is_url=True)
        if scheme not in ("http", "https"):
            raise bad_setting(
                f"“{scheme}://” addresses aren't supported. Paste one that begins with https://."
            )
        return _at_host(rest, endpoint)
    host = text.partition("/")[0]
    if "/" in text and _HOST_LIKE.fullmatch(host) and _is_host(host, endpoint):
        return _at_host(text, endpoint)
    if "/" not in text:
        return None
    return _in_path(text, is_url=False)


def _hosts(endpoint: str) -> set[str]:
    """Hosts whose addresses are this hub's; a mirror serves what the default hub names."""
    return {urlsplit(endpoint).netloc.lower(), urlsplit(DEFAULT_ENDPOINT).netloc, SHORT_HOST}


def _is_host(host: str, endpoint: str) -> bool:
    return host.lower().removeprefix("www.") in _hosts(endpoint)


def _at_host(rest: str, endpoint: str) -> HubAddress:
    host, _, path = rest.partition("/")
    if not _is_host(host, endpoint):
        raise bad_setting(
            f"“{host.rpartition('@')[2]}” isn't the current hub ({urlsplit(endpoint).netloc}). "
            "Change the hub address first, or paste an address from the current hub."
        )
    prefix = urlsplit(endpoint).path.strip("/")
    if prefix and host.lower() == urlsplit(endpoint).netloc.lower():
        path = path.removeprefix(f"{prefix}/")
    address = _in_path(path, is_url=True)
    if address is None:
        raise bad_setting("This address doesn't name a repository. Paste one like owner/name.")
    return address


def _in_path(path: str, *, is_url: bool) -> HubAddress | None:
    """`owner/name`, then `:quantisation`, or a view with a revision and a file."""
    if is_url:
        path = path.partition("#")[0].partition("?")[0]
    parts = [unquote(each) if is_url else each for each in path.split("/")]
    parts = [each for each in parts if each]
    if is_url and parts and parts[0] in ("api", "models"):
        parts = parts[2:] if parts[:2] == ["api", "models"] else parts[1:]
    if parts and parts[0] in _NOT_WEIGHTS:
        if not is_url:
            return None
        raise bad_setting(
            f"This is the address of {_NOT_WEIGHTS[parts[0]]}. Paste the address of a model."
        )
    if len(parts) < 2:
        return None
    name, colon, tag = parts[1].partition(":")
    repo_id = f"{parts[0]}/{name}"
    if not is_repo_id(repo_id):
        return None
    if colon:
        if not _QUANTISATION.fullmatch(tag) or len(parts) > 2:
            raise bad_setting(f"“{tag}” isn't a quantisation. Write it as owner/name:Q4_K_M.")
        return HubAddress(repo_id, quantisation=tag)
    if len(parts) == 2:
        return HubAddress(repo_id, is_plain=not is_url)
    if parts[2] in _VIEWS and len(parts) > 3:
        file_name = "/".join(parts[4:])
        is_folder = parts[2] == "tree"
        return HubAddress(repo_id, parts[3], "" if is_folder else file_name)
    if not is_url and not path.lower().endswith(".gguf"):
        return None
    if path.lower().endswith(".gguf"):
        return HubAddress(repo_id, file_name="/".join(parts[2:]))
    return HubAddress(repo_id)


# --- where the hub is ---------------------------------------------------------------------------


def default_endpoint() -> str:
    """HF_ENDPOINT where it is set and can be used, else the public hub."""
    try:
        return checked_endpoint(os.environ.get(ENVIRONMENT, "") or DEFAULT_ENDPOINT)
    except Refusal:
        return DEFAULT_ENDPOINT


def checked_endpoint(text: str) -> str:
    """A hub's address as it is kept: scheme, host, maybe a port and a path, no slash at its end.

    Raises Refusal. Without a scheme https is meant, on this machine http.
    """
    return _checked(text, "https://hub.example.org", "A hub address", "a token", _is_here)


def checked_server(text: str) -> str:
    """The address of a server that speaks OpenAI's protocol, as it is kept: its root, above `/v1`.
    What people copy may name that or one of its endpoints, which is left out. Raises Refusal.
    Without a scheme http is meant in one's own network, where hardly any server has a certificate,
    else https.

    >>> checked_server("localhost:8080/v1/chat/completions"), checked_server("api.example.org/v1/")
    ('http://localhost:8080', 'https://api.example.org')
    """
    address = _checked(
        text, "http://localhost:8080", "A server's address", "a key", _is_in_own_network
    )
    for endpoint in _ENDPOINTS:
        address = address.removesuffix(endpoint)
    return address.removesuffix("/v1")


_ENDPOINTS: Final = ("/chat/completions", "/completions", "/models", "/embeddings")


def _is_here(host: str) -> bool:
    return host.lower() == "localhost" or host.startswith("127.")


def _is_in_own_network(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_private
    except ValueError:
        name = host.lower().rstrip(".")
        return "." not in name or name.endswith((".local", ".lan", ".internal", ".localhost"))


def is_this_machine(address: str) -> bool:
    """Whether a checked address leads to this computer, by its name or number alone."""
    host = (urlsplit(address).hostname or "").rstrip(".")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def is_readable_by_others(address: str) -> bool:
    """Whether what is sent to a checked address goes over a network as it is."""
    return address.startswith("http://") and not is_this_machine(address)


def _checked(
    text: str, example: str, what: str, secret: str, is_plain: Callable[[str], bool]
) -> str:
    """`secret`: what is entered instead of a password. `is_plain`: hosts that are asked by http
    where no scheme is given."""
    text = text.strip()
    if not text.strip("/"):
        raise bad_setting(f"Enter an address like {example}.")
    if len(text) > MAX_LENGTH:
        raise bad_setting(f"An address is limited to {MAX_LENGTH:,} characters.")
    if "://" not in text:
        host = text.partition("/")[0]
        host = host.partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        text = f"{'http' if is_plain(host) else 'https'}://{text}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise bad_setting(f"“{_shown(text)}” isn't an address. Enter one like {example}.") from None
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host or port == 0 or not _is_name(host):
        raise bad_setting(f"“{_shown(text)}” isn't an address. Enter one like {example}.")
    if parts.username or parts.password:
        raise bad_setting(f"{what} can't contain a user name or password. Enter {secret} instead.")
    if parts.query or parts.fragment:
        raise bad_setting(f"{what} can't contain “?” or “#”. Remove that part.")
    netloc = f"[{host}]" if ":" in host else host
    if port is not None and port != {"http": 80, "https": 443}[parts.scheme]:
        netloc = f"{netloc}:{port}"
    return f"{parts.scheme}://{netloc}{parts.path.rstrip('/')}"


def _is_name(host: str) -> bool:
    try:
        host.encode("idna") if ":" not in host else None
    except UnicodeError:
        return False
    return not any(c.isspace() or c in "\\<>\"'%{}|^`" or ord(c) < 32 for c in host)


def _shown(text: str) -> str:
    """What was typed, for a sentence: not too long, and without a password."""
    text = text.rpartition("@")[2]
    return text if len(text) <= 80 else f"{text[:79]}…"


def host_of(endpoint: str) -> str:
    """How an endpoint is called in sentences: its host, with a port that is not the usual one."""
    return urlsplit(endpoint).netloc


def origin_of(endpoint: str) -> str:
    """Scheme, host and port of an address, always with the port: "https://host:443"."""
    parts = urlsplit(endpoint)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    return f"{parts.scheme}://{(parts.hostname or '').lower()}:{port}"


def page_of(endpoint: str, repo_id: str) -> str:
    """The page of a repository, for people."""
    return f"{endpoint}/{repo_id}"


def file_url(endpoint: str, repo_id: str, revision: str, file_name: str) -> str:
    """Where a file of a repository is downloaded; each part of its path is quoted.

    Raises Refusal for a name that would lead out of the repository.
    """
    if any(each in ("", ".", "..") for each in file_name.split("/")):
        shown = ascii(file_name)[1:-1]
        raise bad_setting(f"“{shown}” isn't a valid file name. Choose another file.")
    path = "/".join(quote(each, safe="") for each in file_name.split("/"))
    return f"{endpoint}/{repo_id}/resolve/{quote(revision, safe='')}/{path}"

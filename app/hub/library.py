"""huggingface_hub, kept behind the gate.

It has one HTTP client for the whole process, made by a factory, and opens connections besides:
telemetry, a look for new versions, a list of agents for its user-agent, its Rust downloader. The
factory gives it a client of ours, and the others are switched off before it is imported. `api` is
the only way to it.

Its own retries sleep for as long as a server says, and cannot be called off; so here every failure
leaves the transport as a `HubFault`, which it does not retry.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Final

import httpx2

from app.hub.faults import FAILURES, Asked, fault_of, not_a_hub
from app.hub.gate import Gate
from app.hub.transport import (
    CONNECT_TIMEOUT_S,
    READ_TIMEOUT_S,
    USER_AGENT,
    GateTransport,
    read_whole,
)

if TYPE_CHECKING:
    from huggingface_hub import HfApi

MAX_REDIRECTS: Final = 5
_SWITCHED_OFF: Final = (
    "HF_HUB_DISABLE_TELEMETRY",
    "HF_HUB_DISABLE_IMPLICIT_TOKEN",
    "HF_HUB_DISABLE_UPDATE_CHECK",
    "HF_HUB_DISABLE_XET",
    "HF_HUB_DISABLE_PROGRESS_BARS",
)
_lock = threading.Lock()
_gate_in_use: Gate | None = None


class LibraryTransport(GateTransport):
    """For huggingface_hub: an answer is JSON of bounded size, or a HubFault."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        asked = Asked(
            host=request.url.netloc.decode("ascii"),
            repo_id=_repo_of(request.url),
            page=_page_of(request.url),
            has_token="Authorization" in request.headers,
        )
        request.headers["Accept-Encoding"] = "gzip"
        try:
            response = super().handle_request(request)
            response.request = request
            if response.has_redirect_location:
                response.close()
                if _is_downgrade(request.url, response.headers["Location"]):
                    raise not_a_hub(asked, response.status_code)
                return httpx2.Response(response.status_code, headers=response.headers)
            if response.status_code >= 300:
                response.close()
                raise fault_of(response, asked)
            body = read_whole(response)
        except FAILURES as error:
            raise fault_of(error, asked) from None
        if "json" not in response.headers.get("Content-Type", "").lower():
            raise not_a_hub(asked)
        headers = {"Content-Type": "application/json"} | _next_page(request.url, response)
        return httpx2.Response(response.status_code, headers=headers, content=body)


def _is_downgrade(url: httpx2.URL, location: str) -> bool:
    """Whether a redirect leads from TLS to where anybody on the way can change the answer."""
    try:
        target = url.join(location)
    except httpx2.InvalidURL:
        return True
    return url.scheme == "https" and target.scheme != "https"


def _next_page(url: httpx2.URL, response: httpx2.Response) -> dict[str, str]:
    """The Link to the next page, at the address that was asked: a mirror hands on the one of the
    hub behind it."""
    try:
        following = httpx2.URL(response.links.get("next", {}).get("url") or "")
    except (httpx2.InvalidURL, ValueError):
        return {}
    if not following.query:
        return {}
    return {"Link": f'<{url.copy_with(query=following.query)}>; rel="next"'}


def _repo_of(url: httpx2.URL) -> str:
    """The repository that an address of the API is about; "" for none."""
    _, found, rest = url.path.partition("/api/models/")
    parts = rest.split("/")
    return "/".join(parts[:2]) if found and len(parts) > 1 else ""


def _page_of(url: httpx2.URL) -> str:
    repo_id = _repo_of(url)
    before = str(url).partition("/api/models/")[0]
    return f"{before}/{repo_id}" if repo_id else ""


def library_client(gate: Gate) -> httpx2.Client:
    return httpx2.Client(
        transport=LibraryTransport(gate),
        trust_env=False,
        follow_redirects=True,
        max_redirects=MAX_REDIRECTS,
        timeout=httpx2.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        headers={"User-Agent": USER_AGENT},
    )


def _no_client() -> httpx2.AsyncClient:
    raise RuntimeError("nothing here asks asynchronously")


def api(gate: Gate, endpoint: str) -> HfApi:
    """huggingface_hub's API of an endpoint, over this gate. Takes its time at first use."""
    global _gate_in_use
    with _lock:
        for name in _SWITCHED_OFF:
            os.environ[name] = "1"
        import huggingface_hub
        from huggingface_hub import constants

        constants.HF_HUB_DISABLE_TELEMETRY = True  # also where somebody imported it before
        if _gate_in_use is not gate:
            logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
            huggingface_hub.set_client_factory(lambda: library_client(gate))
            huggingface_hub.set_async_client_factory(_no_client)
            _gate_in_use = gate
        return huggingface_hub.HfApi(endpoint=endpoint, token=False, library_name="cutaway")


def let_go(gate: Gate) -> None:
    """End the client that was made for this gate; what asks later finds it closed."""
    global _gate_in_use
    with _lock:
        if _gate_in_use is not gate:
            return
        import huggingface_hub

        huggingface_hub.close_session()
        closed = Gate()
        huggingface_hub.set_client_factory(lambda: library_client(closed))
        _gate_in_use = None

"""What is said of repositories and files on a hub. Pure; no Qt."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from app.chat.events import HubState, HubTrouble
from app.hub.tags import LANGUAGES, LICENCES
from ui.library.local.words import one_line
from ui.widgets.figures import parameters_text, window_text

if TYPE_CHECKING:
    from app.gguf.header import Header
    from app.hub.records import HubFile, HubRepo

DOT: Final = " · "
TITLES: Final = {
    "offline": "Offline",
    "gated": "Access required",
    "forbidden": "No access yet",
    "token_bad": "Token rejected",
    "private_or_missing": "Not found",
    "not_found": "No longer there",
    "rate_limited": "Too many requests",
    "server": "Hub error",
    "not_hub": "Not a hub",
    "network": "Can't reach the hub",
    "not_usable": "This model can't be used",
}
NEEDS_TOKEN: Final = frozenset({"gated", "forbidden", "token_bad", "private_or_missing"})
NEEDS_ADDRESS: Final = frozenset({"not_hub", "network"})
_DAY: Final = 86_400


def count_text(count: int) -> str:
    """
    >>> count_text(999), count_text(1_234), count_text(12_345), count_text(4_500_000)
    ('999', '1.2k', '12k', '4.5M')
    """
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if count >= size:
            share = count / size
            return f"{share:.1f}{unit}" if share < 9.95 else f"{share:.0f}{unit}"
    return str(count)


def ago_text(when: datetime, now: datetime | None = None) -> str:
    """How long ago, in words.

    >>> now = datetime(2026, 11, 28, 12, tzinfo=UTC)
    >>> ago_text(datetime(2026, 11, 28, 1, tzinfo=UTC), now)
    'today'
    >>> ago_text(datetime(2026, 9, 1, tzinfo=UTC), now)
    '2 months ago'
    """
    days = int(((now or datetime.now(UTC)) - when).total_seconds() // _DAY)
    for size, unit in ((365, "year"), (30, "month"), (1, "day")):
        if days >= size:
            n = days // size
            return f"{n} {unit}{'s' if n > 1 else ''} ago"
    return "today"


def repo_line(repo: HubRepo) -> str:
    """Figures, below the name in a listing."""
    parts = [
        parameters_text(repo.n_parameters) if repo.n_parameters else "",
        f"{count_text(repo.downloads)} downloads",
        f"{count_text(repo.likes)} likes",
    ]
    return DOT.join(part for part in parts if part)


def marks_of(repo: HubRepo) -> str:
    """What keeps it from being downloaded at once; "" for nothing."""
    return DOT.join(
        word for word, is_so in (("gated", repo.is_gated), ("private", repo.is_private)) if is_so
    )


def spoken_repo(repo: HubRepo) -> str:
    """A repository in a listing, read aloud."""
    updated = f"updated {ago_text(repo.updated)}" if repo.updated else ""
    return ". ".join(part for part in (repo.id, marks_of(repo), repo_line(repo), updated) if part)


def repo_facts(repo: HubRepo, now: datetime | None = None) -> str:
    """All that a hub says of a repository, in one paragraph."""
    names = [LANGUAGES.get(each, each) for each in repo.languages[:4]]
    more = f" and {len(repo.languages) - 4} more" if len(repo.languages) > 4 else ""
    licence = LICENCES.get(repo.licence, repo.licence)
    parts = [
        repo_line(repo),
        f"updated {ago_text(repo.updated, now)}" if repo.updated else "",
        repo.architecture,
        f"context {window_text(repo.n_ctx_train)}" if repo.n_ctx_train else "",
        f"licence {licence}" if licence else "no licence stated",
        ", ".join(names) + more if names else "",
    ]
    return one_line(DOT.join(part for part in parts if part))


def file_title(file: HubFile) -> str:
    """A file by its real name, without the folder that it is in; a set by its first part."""
    return one_line(file.name.rpartition("/")[2])


def file_line(file: HubFile, *, with_bits: bool = False) -> str:
    """Below the name: what is special about it; `with_bits`, its quantisation first."""
    folder = file.name.rpartition("/")[0]
    n_missing = len(file.missing)
    parts = [
        file.quantisation if with_bits else "",
        f"{bits_text(file.bits)} bits" if with_bits and file.bits else "",
        f"{n_missing} of {n_missing + len(file.names)} parts missing" if n_missing else "",
        f"{len(file.names)} parts" if len(file.names) > 1 else "",
        "projector" if file.is_projector else "",
        f"in {folder}" if folder else "",
    ]
    return one_line(DOT.join(part for part in parts if part))


def bits_text(bits: float | None) -> str:
    """Bits per weight.

    >>> bits_text(4.89), bits_text(16.0), bits_text(None)
    ('4.9', '16', '')
    """
    return "" if bits is None else f"{bits:.1f}".removesuffix(".0")


def headers_line(headers: tuple[Header, ...]) -> str:
    """What the file itself says, once its header was read."""
    first = headers[0]
    parts = [
        first.name,
        first.architecture,
        f"{first.n_layer} layers" if first.n_layer else "",
        f"context {window_text(first.n_ctx_train)}" if first.n_ctx_train else "",
        "chat template" if first.chat_template else "no chat template",
    ]
    return one_line(DOT.join(part for part in parts if part))


def trouble_title(trouble: HubTrouble) -> str:
    return TITLES.get(trouble.kind, "Something went wrong")


def wait_text(seconds: float) -> str:
    """How long until it is tried again.

    >>> wait_text(1.2), wait_text(75)
    ('Retry in 2 s', 'Retry in 1:15')
    """
    whole = max(0, -int(-seconds // 1))
    return f"Retry in {whole} s" if whole < 60 else f"Retry in {whole // 60}:{whole % 60:02}"


def state_text(state: HubState) -> str:
    """The foot of the page: which hub, and as whom."""
    if state.is_token_refused:
        token = "token rejected"
    elif state.account:
        token = f"as {one_line(state.account)}"
    else:
        token = {"none": "no token", "keyring": "using your token"}.get(
            state.token_where, "using your token, until Cutaway closes"
        )
    return f"{state.host}{DOT}{token}"

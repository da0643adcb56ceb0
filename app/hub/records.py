"""What a hub has, as plain values: searches, repositories, weights that can be downloaded.

Light, so that views may use it: nothing here can ask a hub (`client.py` does).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

Sort = Literal["downloads", "likes", "trending", "updated", "created"]


@dataclass(frozen=True, slots=True)
class SearchWish:
    """What is searched for. `updated_within_days` and `max_parameters` are looked at here, the
    others by the hub; a repository whose size is not known passes `max_parameters`."""

    text: str = ""
    sort: Sort = "downloads"
    gguf_only: bool = True
    author: str = ""
    licence: str = ""
    language: str = ""
    updated_within_days: int | None = None
    max_parameters: int | None = None


@dataclass(frozen=True, slots=True)
class HubRepo:
    """A repository as a listing shows it. `updated` and `created` are None where the hub is
    silent; `n_parameters` is what the hub read in one of its files."""

    id: str
    author: str = ""
    downloads: int = 0
    likes: int = 0
    updated: datetime | None = None
    created: datetime | None = None
    licence: str = ""
    languages: tuple[str, ...] = ()
    is_gated: bool = False
    is_private: bool = False
    n_parameters: int | None = None
    architecture: str = ""
    n_ctx_train: int | None = None
    tags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.id.partition("/")[2] or self.id


@dataclass(frozen=True, slots=True)
class HubFile:
    """Weights that can be downloaded: one file, or a split set as one.

    `names` are the real names of all parts, in order; `sizes` and `sha256s` go with them ("" where
    the hub has no hash). `missing` names parts that the repository lacks. `bits` is about how many
    bits a weight takes. `revision` is a commit, so that parts never mix two versions.
    """

    repo_id: str
    revision: str
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    sha256s: tuple[str, ...]
    quantisation: str = ""
    bits: float | None = None
    is_projector: bool = False
    missing: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The first part's, which is the one that is loaded."""
        return self.names[0]

    @property
    def size_bytes(self) -> int:
        return sum(self.sizes)


@dataclass(frozen=True, slots=True)
class HubSearchPage:
    """`has_more`: another page may be asked for."""

    repos: tuple[HubRepo, ...] = ()
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class RepoPage:
    """All about one repository but its card."""

    repo: HubRepo
    files: tuple[HubFile, ...] = field(default=())


def pick(files: Iterable[HubFile], *, name: str = "", quantisation: str = "") -> HubFile | None:
    """The file that an address means: by its name, or by its quantisation (the smallest then)."""
    for each in files:
        if name and name in each.names:
            return each
        wanted = quantisation.upper()
        if wanted and not each.is_projector and each.quantisation.upper() == wanted:
            return each
    return None

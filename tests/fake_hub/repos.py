"""What the fake hub holds, and the JSON that the real hub makes of such things.

The shapes are those that huggingface_hub reads (`hf_api.py`: ModelInfo, RepoSibling, RepoFile).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Content = bytes | Path
_FIRST_DAY = datetime(2024, 3, 1, 12, 0, 0, tzinfo=UTC)


@dataclass
class FakeFile:
    """A file in a repository. Weights are stored with LFS: their ETag is their SHA-256, and they
    come from the other server. Small text is served by the hub itself."""

    path: str
    content: Content
    is_lfs: bool = True

    def __post_init__(self) -> None:
        digest, blob = hashlib.sha256(), hashlib.sha1(usedforsecurity=False)
        blob.update(b"blob %d\0" % self.size_bytes)
        for start in range(0, self.size_bytes, 1 << 20):
            part = self.read(start, 1 << 20)
            digest.update(part)
            blob.update(part)
        self.sha256 = digest.hexdigest()
        self.oid = blob.hexdigest()

    @property
    def size_bytes(self) -> int:
        if isinstance(self.content, bytes):
            return len(self.content)
        return self.content.stat().st_size

    @property
    def etag(self) -> str:
        return self.sha256 if self.is_lfs else self.oid

    def read(self, start: int, count: int) -> bytes:
        if isinstance(self.content, bytes):
            return self.content[start : start + count]
        with self.content.open("rb") as file:
            file.seek(start)
            return file.read(count)


@dataclass
class FakeRepo:
    """A repository of weights."""

    id: str
    files: list[FakeFile] = field(default_factory=list)
    card: str = ""
    """README.md, front matter included; empty: there is none."""
    downloads: int = 100
    likes: int = 5
    trending: int = 1
    updated_days: int = 0
    """Days after the first day; `created_days` likewise."""
    created_days: int = 0
    licence: str = "apache-2.0"
    languages: tuple[str, ...] = ("en",)
    tags: tuple[str, ...] = ()
    gated: str | bool = False
    """False, "auto" or "manual"."""
    private: bool = False
    n_parameters: int | None = None
    architecture: str = "llama"
    commit: str = ""

    def __post_init__(self) -> None:
        self.commit = self.commit or hashlib.sha1(self.id.encode()).hexdigest()

    @property
    def author(self) -> str:
        return self.id.partition("/")[0]

    @property
    def is_gguf(self) -> bool:
        return any(each.path.endswith(".gguf") for each in self.files)

    @property
    def all_files(self) -> list[FakeFile]:
        if not self.card:
            return self.files
        return [*self.files, FakeFile("README.md", self.card.encode(), is_lfs=False)]

    def file(self, path: str) -> FakeFile | None:
        return next((each for each in self.all_files if each.path == path), None)

    @property
    def all_tags(self) -> list[str]:
        own = [*self.tags, *(["gguf"] if self.is_gguf else [])]
        licence = [f"license:{self.licence}"] if self.licence else []
        return [*own, *self.languages, *licence, "region:us"]

    # --- shapes ---------------------------------------------------------------------------------

    def listed(self, expand: list[str], is_full: bool) -> dict[str, Any]:
        """One entry of `/api/models`. With `expand` only what it names, and the ids, are there."""
        everything = self._everything()
        shape = {"_id": self._object_id(), "id": self.id}
        if expand:
            return shape | {name: everything[name] for name in expand if name in everything}
        usual = ["likes", "private", "downloads", "tags", "createdAt", "modelId"]
        usual += ["pipeline_tag", "library_name", "trendingScore"]
        if is_full:
            usual += ["author", "gated", "lastModified", "sha", "siblings"]
        return shape | {name: everything[name] for name in usual if name in everything}

    def info(self, expand: list[str], with_blobs: bool) -> dict[str, Any]:
        """`/api/models/{id}`."""
        everything = self._everything()
        if expand:
            names = {name: everything[name] for name in expand if name in everything}
            return {"_id": self._object_id(), "id": self.id} | names
        if with_blobs:
            everything["siblings"] = [_blob(each) for each in self.all_files]
        return {"_id": self._object_id(), "id": self.id} | everything

    def tree(self, under: str, is_recursive: bool) -> list[dict[str, Any]]:
        """`/api/models/{id}/tree/{revision}`: folders and files."""
        prefix = f"{under}/" if under else ""
        entries: dict[str, dict[str, Any]] = {}
        for each in self.all_files:
            if not each.path.startswith(prefix):
                continue
            folders = each.path[len(prefix) :].split("/")[:-1]
            for depth in range(1, len(folders) + 1):
                name = prefix + "/".join(folders[:depth])
                if depth == 1 or is_recursive:
                    oid = hashlib.sha1(name.encode()).hexdigest()
                    entries[name] = {"type": "directory", "oid": oid, "size": 0, "path": name}
            if not folders or is_recursive:
                entries[each.path] = _tree_file(each)
        return [entries[name] for name in sorted(entries)]

    def _everything(self) -> dict[str, Any]:
        shape: dict[str, Any] = {
            "modelId": self.id,
            "author": self.author,
            "sha": self.commit,
            "lastModified": _day(self.updated_days),
            "createdAt": _day(self.created_days),
            "private": self.private,
            "gated": self.gated,
            "disabled": False,
            "downloads": self.downloads,
            "likes": self.likes,
            "trendingScore": self.trending,
            "tags": self.all_tags,
            "pipeline_tag": "text-generation",
            "library_name": "gguf",
            "cardData": {"license": self.licence, "language": list(self.languages)},
            "siblings": [{"rfilename": each.path} for each in self.all_files],
            "usedStorage": sum(each.size_bytes for each in self.all_files),
        }
        if self.is_gguf:
            shape["gguf"] = {
                "total": self.n_parameters or 0,
                "architecture": self.architecture,
                "context_length": 8192,
            }
        return shape

    def _object_id(self) -> str:
        return hashlib.sha1(self.id.encode()).hexdigest()[:24]


def _day(days: int) -> str:
    return (_FIRST_DAY + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _blob(file: FakeFile) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "rfilename": file.path,
        "blobId": file.oid,
        "size": file.size_bytes,
    }
    if file.is_lfs:
        shape["lfs"] = {"sha256": file.sha256, "size": file.size_bytes, "pointerSize": 135}
    return shape


def _tree_file(file: FakeFile) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "type": "file",
        "oid": file.oid,
        "size": file.size_bytes,
        "path": file.path,
    }
    if file.is_lfs:
        shape["lfs"] = {"oid": file.sha256, "size": file.size_bytes, "pointerSize": 135}
    return shape

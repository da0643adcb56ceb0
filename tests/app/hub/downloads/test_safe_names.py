"""Names that a repository gives its files, and what they are saved as."""

from __future__ import annotations

import pytest
from examples import examples
from hypothesis import given, settings, strategies as st

from app.gguf.local.split_names import split_name
from app.hub.downloads.safe_names import MAX_NAME_BYTES, NameRefused, safe_part, saved_name


@pytest.mark.parametrize(
    ("name", "saved"),
    [
        ("tiny-Q4_K_M.gguf", "tiny-Q4_K_M.gguf"),
        ("Q4_K_M/tiny-00001-of-00002.gguf", "tiny-00001-of-00002.gguf"),
        ("CON.gguf", "_CON.gguf"),
        ("nul .tar.gguf", "_nul .tar.gguf"),
        ("COM1.gguf", "_COM1.gguf"),
        ("CONSOLE.gguf", "CONSOLE.gguf"),
        (".gguf", "_.gguf"),
        (" x.gguf", "_ x.gguf"),
        ("x.gguf. .", "x.gguf"),
        ("a\nb\x00c.gguf", "a_b_c.gguf"),
        ("gguf\u202efdp.gguf", "gguf_fdp.gguf"),
        ('a<b>:"|?*.gguf', "a_b______.gguf"),
        ("ﬁne-模型.gguf", "ﬁne-模型.gguf"),
        ("e\u0301.gguf", "\u00e9.gguf"),
        ("\udcff.gguf", "_.gguf"),
    ],
)
def test_what_a_file_is_saved_as(name: str, saved: str) -> None:
    assert saved_name(name) == saved


@pytest.mark.parametrize(
    "name",
    [
        "../x.gguf",
        "a/../x.gguf",
        "/etc/x.gguf",
        "a//x.gguf",
        "./x.gguf",
        "..",
        "",
        "C:x.gguf",
        "C:\\x.gguf",
        "a\\x.gguf",
        "x.exe",
        "x.gguf\x00.exe",
        "x.gguf/",
    ],
)
def test_a_name_that_is_refused_says_what_to_do(name: str) -> None:
    with pytest.raises(NameRefused, match=r"Choose a file .*\.$") as caught:
        saved_name(name)
    assert all(char.isprintable() for char in str(caught.value))


def test_parts_of_a_set_stay_parts_of_one_set() -> None:
    """Also where their names are far too long."""
    names = [f"{'模' * 100}-0000{n}-of-00002.gguf" for n in (1, 2)]
    first, second = (split_name(saved_name(name)) for name in names)
    assert first is not None
    assert second is not None
    assert (first.stem, first.of) == (second.stem, second.of)
    assert [first.part, second.part] == [1, 2]
    assert len(saved_name(names[0]).encode()) <= MAX_NAME_BYTES
    other = saved_name(f"{'模' * 99}型-00001-of-00002.gguf")
    assert other != saved_name(names[0])


@settings(max_examples=examples(100), deadline=None)
@given(st.text(st.characters(codec=None), max_size=300))
def test_whatever_it_is_called_it_stays_in_its_folder(name: str) -> None:
    safe = safe_part(name)
    assert safe_part(safe) == safe
    assert safe not in ("", ".", "..")
    assert not set(safe) & set("/\\:\0")
    assert safe[0] not in ". "
    assert safe[-1] not in ". "
    assert len(safe.encode()) <= MAX_NAME_BYTES

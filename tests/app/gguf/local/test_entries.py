"""Which files are one entry. Row D09 (names in NFC and NFD)."""

from __future__ import annotations

import hashlib
import itertools
import os
import time
import unicodedata
from pathlib import Path

from placed_weights import chosen, hashed, looked_into, part, put

from app.gguf.local.entries import entries
from app.gguf.local.places import Origin, Place

# --- split sets -------------------------------------------------------------------------------


def test_a_split_set_is_one_entry(tmp_path: Path) -> None:
    for number in (3, 1, 2):
        put(tmp_path / part(number))
    put(tmp_path / "other" / part(1, 1))
    big, other = entries(looked_into(tmp_path))
    assert big.path == tmp_path / part(1)
    assert [path.name for path in big.parts] == [part(1), part(2), part(3)]
    assert (big.name, big.missing, big.trouble) == ("big", (), "")
    assert big.size_bytes == sum(path.stat().st_size for path in big.parts)
    assert big.facts is not None
    assert big.facts.n_parameters == 12
    assert sum(share.n_tensors for share in big.facts.types) == 3
    assert len(other.parts) == 1


def test_missing_parts_are_named(tmp_path: Path) -> None:
    put(tmp_path / part(2))
    (found,) = entries(looked_into(tmp_path))
    assert found.missing == (part(1), part(3))
    assert found.trouble == (
        f"“{part(1)}”, “{part(3)}” are missing. Download them into the same folder."
    )


def test_a_number_of_parts_that_cannot_be_is_no_set(tmp_path: Path) -> None:
    for number in range(20):
        put(tmp_path / str(number) / part(1, 99_999), "same")
    looked = looked_into(tmp_path)
    began = time.thread_time()
    found = entries(looked)
    assert time.thread_time() - began < 0.5
    assert {(weights.missing, weights.trouble) for weights in found} == {((), "")}
    assert len(entries(hashed(looked))) == 1


def test_a_part_that_is_cut_is_the_trouble_of_the_set(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        put(tmp_path / part(number))
    second = tmp_path / part(2)
    second.write_bytes(second.read_bytes()[:-40])
    (found,) = entries(looked_into(tmp_path))
    assert part(2) in found.trouble
    assert "incomplete" in found.trouble


def test_a_set_is_whole_beside_a_revision_of_which_little_was_fetched(tmp_path: Path) -> None:
    """As in Hugging Face's cache: links of each revision into one folder of blobs."""
    blobs = [put(tmp_path / "blobs" / name, name) for name in ("first", "second", "newer")]
    for revision, parts in (("a", (0,)), ("b", (0, 1)), ("c", (0, 2)), ("d", (0, 1))):
        (tmp_path / revision).mkdir()
        for number, blob in enumerate(parts, start=1):
            (tmp_path / revision / part(number, 2)).symlink_to(blobs[blob])
    looked = looked_into(tmp_path)
    for found in (looked, looked[::-1]):
        some = entries(found)
        assert [(weights.path.parent.name, weights.trouble) for weights in some] == [
            ("b", ""),
            ("c", ""),
        ]
    assert [path.parent.name for path in some[0].parts] == ["b", "b"]
    assert set(some[0].links) >= {tmp_path / name / part(1, 2) for name in "ad"}


# --- one content, one entry -------------------------------------------------------------------


def test_hard_links_are_one_entry_that_says_where_else(tmp_path: Path) -> None:
    first = put(tmp_path / "a" / "x.gguf")
    (tmp_path / "b").mkdir()
    second = tmp_path / "b" / "y.gguf"
    os.link(first, second)
    (found,) = entries(looked_into(tmp_path))
    assert (found.path, found.also_at) == (first, (second,))


def test_a_folder_inside_another_one_is_listed_once(tmp_path: Path) -> None:
    put(tmp_path / "lm" / "x.gguf")
    places = (chosen(tmp_path), Place(Origin.LM_STUDIO, tmp_path / "lm"))
    (found,) = entries(looked_into(*places))
    assert found.origin == Origin.LM_STUDIO
    assert found.also_at == ()


def test_the_same_content_in_two_places_is_one_entry_once_it_is_known(tmp_path: Path) -> None:
    first = put(tmp_path / "mine" / "x.gguf", "same")
    second = put(tmp_path / "lm" / "renamed.gguf", "same")
    third = put(tmp_path / "lm" / "other.gguf", "else")
    looked = looked_into(tmp_path / "mine", Place(Origin.LM_STUDIO, tmp_path / "lm"))
    assert len(entries(looked)) == 3
    other, same = entries(hashed(looked))
    assert (same.path, same.also_at) == (second, (first,))
    assert same.is_computed
    assert same.sha256 == hashlib.sha256(first.read_bytes()).hexdigest()
    assert other.path == third


def test_split_sets_of_the_same_content_are_one_entry(tmp_path: Path) -> None:
    for folder, number in itertools.product("ab", (1, 2)):
        put(tmp_path / folder / part(number, 2), f"part {number}")
    put(tmp_path / "c" / part(1, 2), "part 1")
    incomplete, found = sorted(
        entries(hashed(looked_into(tmp_path))), key=lambda weights: weights.can_load
    )
    assert found.also_at == (tmp_path / "b" / part(1, 2),)
    assert incomplete.missing == (part(2, 2),)


def test_d09_nfc_and_nfd_are_not_listed_twice(tmp_path: Path) -> None:
    name = "Žluťoučký modèle"
    paths = [
        put(tmp_path / f"{unicodedata.normalize(form, name)}.gguf", "same")
        for form in ("NFC", "NFD")
    ]
    there = set(tmp_path.iterdir())  # one file where the system does not tell the names apart
    looked = looked_into(tmp_path)
    (found,) = entries(looked)
    assert {found.path, *found.also_at} == there
    # Each by its own spelling, as where a folder was chosen in the other one:
    assert len(entries(looked_into(*paths))) == 1
    half_known = [hashed(looked[:1])[0], *looked[1:]]
    assert len(entries(half_known)) == 1
    assert len(entries(hashed(looked))) == 1


def test_d09_nfc_and_nfd_of_different_content_are_two(tmp_path: Path) -> None:
    for form, title in (("NFC", "aaaa"), ("NFD", "bbbb")):
        put(tmp_path / f"{unicodedata.normalize(form, 'é')}.gguf", title)
    assert len(entries(hashed(looked_into(tmp_path)))) == len(list(tmp_path.iterdir()))


def test_what_cannot_be_loaded_is_not_shown_before_what_can(tmp_path: Path) -> None:
    put(tmp_path / "a" / "x.gguf", "same")
    put(tmp_path / "b" / "x.gguf", "same")
    (tmp_path / "a" / "x.gguf.part").write_bytes(b"")
    (found,) = entries(hashed(looked_into(tmp_path)))
    assert found.path == tmp_path / "b" / "x.gguf"
    assert found.can_load


def test_a_part_of_a_set_is_not_the_same_as_a_copy_of_it_under_another_name(
    tmp_path: Path,
) -> None:
    put(tmp_path / "a" / part(1, 2), "part 1")
    put(tmp_path / "b" / "copy.gguf", "part 1")
    found = entries(hashed(looked_into(tmp_path)))
    assert [(weights.name, len(weights.missing)) for weights in found] == [("big", 1), ("copy", 0)]

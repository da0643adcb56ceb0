"""Rows of a header, and templates laid out to be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from gguf_writer import CHATML, Tensor, Typed, tiny_llama, write_gguf

from app.gguf.values import value_typed
from app.library.header_shown import HeaderShown, matches, one_line, read_shown, value_row
from app.library.template_lines import laid_out


def shown_of(path: Path, **metadata: object) -> HeaderShown:
    write_gguf(path, metadata={key.replace("__", "."): value for key, value in metadata.items()})
    return read_shown(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "weights.gguf"


def test_every_key_has_a_row_in_the_files_order(path: Path) -> None:
    found = shown_of(
        path,
        a__text="two\nlines\x1b",
        a__many=Typed("array:u32", list(range(600))),
        a__one=Typed("array:f32", [1.0]),
        a__long="x" * (3 << 20),
        a__empty="",
        general__languages=["de", "en"],
        a__yes=True,
    )
    rows = {row.key: (row.kind_name, row.preview) for row in found.values}
    assert list(rows) == list(found.header.entries)
    assert rows["a.text"] == ("string", "two↵lines�")
    assert rows["a.many"] == ("array of uint32", "600 items")
    assert rows["a.one"] == ("array of float32", "1 item")
    assert rows["a.long"] == ("string", "a text of 3,145,728 bytes")
    assert rows["a.empty"] == ("string", "")
    assert rows["general.languages"] == ("array of string", '["de", "en"]')
    assert rows["a.yes"] == ("bool", "true")


def test_tensors_are_where_the_file_has_them(path: Path) -> None:
    layout = tiny_llama(path)
    rows = read_shown(path).tensors
    assert {row.name: (row.begins, row.size_bytes) for row in rows} == dict(layout.tensors)
    embedding = next(row for row in rows if row.name == "token_embd.weight")
    assert embedding.n_weights == embedding.shape[0] * embedding.shape[1]
    assert embedding.bits_per_weight == 16.0


def test_a_split_set_is_shown_whole(tmp_path: Path) -> None:
    def part(number: int) -> Path:
        return tmp_path / f"big-{number:05d}-of-00003.gguf"

    for number in (1, 3):
        write_gguf(
            part(number),
            metadata={"split.no": Typed("u16", number - 1), "split.count": Typed("u16", 3)},
            tensors={f"t{number}": Tensor((8 * number,), [0.0] * 8 * number)},
        )
    found = read_shown(part(3))
    assert [(row.name, row.part, row.n_weights) for row in found.tensors] == [
        ("t1", 1, 8),
        ("t3", 3, 24),
    ]
    assert found.missing == (part(2).name,)
    assert found.facts.n_parameters == 32
    assert found.header.metadata["split.no"] == 2
    part(3).rename(tmp_path / "big-00003-of-99999.gguf")
    assert len(read_shown(tmp_path / "big-00003-of-99999.gguf").tensors) == 1


def test_searching_looks_into_keys_kinds_and_values(path: Path) -> None:
    found = shown_of(path, general__name="Große Sprache", a__b=7)
    hits = {row.key for row in found.values if matches(row.sought, ["grosse", "string"])}
    assert hits == {"general.name"}
    assert {row.key for row in found.values if matches(row.sought, ["a.b"])} == {"a.b"}


def test_a_row_as_it_is_to_be(path: Path) -> None:
    header = shown_of(path, a__b=7).header
    new = value_row("a.b", header, value_typed("array of string", '["x"]'))
    assert (new.kind_name, new.preview, new.is_changed) == ("array of string", '["x"]', True)
    added = value_row("new.key", header, value_typed("bool", "yes"))
    assert (added.entry, added.preview) == (None, "true")
    assert value_row("a.b", header, None, is_removed=True).is_changed
    assert not value_row("a.b", header, None).is_changed


def test_templates_by_name(path: Path) -> None:
    write_gguf(path, template=CHATML, metadata={"tokenizer.chat_template.tool_use": "tools"})
    found = read_shown(path).templates
    assert found == {"default": CHATML, "tool_use": "tools"}


def test_one_line_is_cut() -> None:
    assert one_line("x" * 10, 5) == "xxxxx…"
    assert one_line("\u202eabc\r\n", 99) == "�abc␍↵"


def test_a_template_is_laid_out_by_its_blocks() -> None:
    lines = laid_out(CHATML).splitlines()
    assert lines[0] == "{% for message in messages %}"
    assert lines[1].startswith("  {{ '<|im_start|>'")
    assert lines[2] == "{% endfor %}"
    assert lines[-1] == "{% endif %}"
    assert "".join(line.strip() for line in lines) == CHATML


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("", [""]),
        ("plain", ["plain"]),
        ("  x ", ["··x·"]),
        ("a\n\nb", ["a↵", "↵", "b"]),
        ("{% if a %}1{% elif b %}2{% else %}3{% endif %}", None),
        ("{%- set x -%}y{%- endset -%}", ["{%- set x -%}", "  y", "{%- endset -%}"]),
        ("{% set x = 1 %}y", ["{% set x = 1 %}", "y"]),
        ("{{ 'a\nb' }}", ["{{ 'a↵b' }}"]),
        ("{% endfor %}{% endfor %}x", ["{% endfor %}", "{% endfor %}", "x"]),
        ("{% if", ["{% if"]),
        ("{# c #}x", ["{# c #}", "x"]),
    ],
)
def test_odd_templates(source: str, lines: list[str] | None) -> None:
    found = laid_out(source)
    if lines is not None:
        assert found == "\n".join(lines)
    else:
        assert [len(line) - len(line.lstrip()) for line in found.splitlines()] == [
            0,
            2,
            0,
            2,
            0,
            2,
            0,
        ]


def test_a_template_made_to_be_deep_or_long_is_quick() -> None:
    deep = laid_out("{% if a %}" * 15_000)
    assert deep.splitlines()[-1].startswith(" " * 40 + "{%")
    long = "{{ a }}" * 100_000
    assert laid_out(long).replace("\n", "") == long
    assert laid_out("{%" * 100_000).startswith("{%")

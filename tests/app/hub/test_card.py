"""Model cards without their HTML; in linear time, whatever is in them."""

from __future__ import annotations

import time

import pytest
from each import each

from app.hub.card import shown_card


@each(
    ("markdown", "shown"),
    [
        ("# Tiny\n\nA *tiny* one.", "# Tiny\n\nA *tiny* one."),
        ('<h1 align="center">\nTiny\n one</h1>\ntext', "#  Tiny  one\n\ntext"),
        ('<div align="center">\n<img src="https://x.example.org/a.png">\n</div>\nA', "A"),
        ("a ![logo](https://x.example.org/a.png) b", "a  b"),
        ("[![badge](https://x.example.org/b.svg)](https://x.example.org)", ""),
        ('<a href="https://x.example.org"><img src="b.svg"></a>', ""),
        ('see <a target="_blank" href="https://x.example.org">the <b>page</b></a>.',
         "see [the **page**](https://x.example.org)."),
        ("<!-- hidden\n```\nstill hidden\n--> seen", "seen"),
        ("<style>\np { color: red }\n</style>\nA", "A"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<ul><li>one</li><li>two</li></ul>", "- one\n\n- two"),
        ("`<b>` and ``<i>`</i>``", "`<b>` and ``<i>`</i>``"),
        ("```html\n<b>![x](y)</b>\n```", "```html\n<b>![x](y)</b>\n```"),
        ("~~~\n<b>\n\n\n</b>\n~~~", "~~~\n<b>\n\n\n</b>\n~~~"),
        ("2 < 3 and a<b", "2 < 3 and a<b"),
        ("<https://x.example.org>", "<https://x.example.org>"),
        ("| a | b |\n|---|---|\n| 1 | <br> |", "| a | b |\n|---|---|\n| 1 |   |"),
        ('<img\n src="a.png"\n width="3"\n>\nA', "A"),
        ("a <b\nand nothing\nmore", "a <b\nand nothing\nmore"),
        ("a\n\n\n\nb", "a\n\nb"),
        ("", ""),
    ],
)  # fmt: skip
def test_html_goes_and_words_stay(markdown, shown):
    assert shown_card(markdown) == shown


@pytest.mark.parametrize(
    "piece",
    ["<", "`", "``` ", "```\n", "<a href=", "<a href=x>", "</a>", "<h1>", "<!--", "-->", "<svg>",
     "![", "![a](b \"", "[ ", "[](", "\n \n", "` ``", "~~~\n", "<b ", "<li>", "&lt;", "<a\n"],
)  # fmt: skip
def test_a_hostile_card_takes_no_time(piece):
    began = time.process_time()
    shown_card(piece * (100_000 // len(piece)))
    assert time.process_time() - began < 1

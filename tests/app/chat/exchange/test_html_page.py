"""The web page, as another parser (lxml) reads it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import lxml.html
from exported_chats import HOSTILE, NOON, png, rich_chat
from made_traces import trace_of

from app.chat.exchange import html_page
from app.chat.exchange.choices import Choices
from app.chat.exchange.html_blocks import BlockWriter
from app.insight.trace.columns import pack
from app.markdown.whole import whole_blocks
from ui.look.colors import DARK, LIGHT
from ui.look.tints import N_LEVELS

LOADS = ("src", "srcset", "data", "poster", "background", "action", "formaction", "ping")
SHAPES = {"svg", "path", "rect", "line"}


def page(**options: Any) -> Any:
    text = "".join(html_page.page(rich_chat(), Choices("html", **options), NOON))
    return text, lxml.html.document_fromstring(text.encode())


def words(element: Any) -> str:
    return " ".join(" ".join(element.itertext()).split())


def test_all_that_was_said_stands_there_in_order() -> None:
    text, tree = page()
    assert text.startswith("<!DOCTYPE html>")
    assert words(tree.find(".//title")) == "Primes & <b>more</b>"
    articles = tree.findall(".//article")
    assert [each.get("class") for each in articles] == [
        *("you", "reply", "you", "reply", "tool", "reply", "you", "reply")
    ]
    first, reply, _, called, result, after, hostile, failed = articles
    assert "What are primes? <b>Twice</b>" in words(first)
    assert "paper.pdf · page 12, page 3" in words(first)
    assert first.find(".//img").get("alt") == "photo <1>.png"
    assert reply.find(".//details").get("open") is None, "folded"
    assert words(reply.find(".//details")).startswith("Reasoning I think of")
    assert reply.find(".//h1").text == "Prime numbers"
    styled = [each for each in reply.findall("./div//p/*") if each.tag in "bis"]
    assert [(each.tag, each.text) for each in styled][:3] == [
        *(("b", "sieve"), ("i", "Eratosthenes"), ("s", "slowly"))
    ]
    assert [li.get("value") for li in reply.findall(".//ol/li")] == ["1", "2", "3"]
    second = reply.findall(".//ol/li")[1]
    assert [words(li) for li in second.findall("./ul/li")] == ["of 2", "of 3"]
    assert words(second.find("./blockquote")) == "and so on"
    assert [words(li) for li in reply.findall(".//ul[@class='marks']/li")] == ["☑ done", "☐ to do"]
    rows = [[words(cell) for cell in row] for row in reply.findall(".//tr")]
    assert rows == [["n", "primes", "share"], ["10", "4", "40%"], ["100", "25", "25%"]]
    assert reply.findall(".//td")[1].get("class") == "right"
    code = reply.find(".//div[@class='card']/pre/code")
    assert code.text_content().endswith("if sieve[i]]  # <b>not bold</b>")
    assert [each.text for each in code.findall("span[@class='c-keyword']")][:1] == ["def"]
    assert "日本語の段落です。" in words(reply)
    formulas = reply.findall(".//svg")
    assert [each.get("aria-label") for each in formulas][-1].startswith("$$")
    assert "Called: look_up" in words(called)
    assert '{"n": 30}' in called.text_content()
    assert words(result).endswith("Result [2, 3, 5]")
    assert "Ten of them." in words(after)
    seen = " ".join(HOSTILE.replace("\0", "�").replace("\x07", "�").split())
    assert seen in words(hostile)
    assert seen in words(failed)


def test_nothing_is_loaded_run_or_asked_for() -> None:
    for options in ({}, {"branches": True}, {"tints": True}):
        text, tree = page(**options)
        policy = tree.find(".//meta[@http-equiv]").get("content")
        assert policy.startswith("default-src 'none';")
        assert "script" not in policy
        for element in tree.iter(lxml.html.etree.Element):
            assert element.tag not in (
                "script",
                "iframe",
                "object",
                "embed",
                "link",
                "base",
                "form",
            )
            for name, value in element.items():
                assert not name.startswith("on"), element.tag
                assert name not in LOADS or value.startswith("data:image/png;base64,")
                assert name != "href" or value.startswith(("#", "https://example.org/"))
        style = tree.find(".//style").text_content()
        assert "url(" not in style
        assert "@import" not in style
        assert "@font-face" not in style
        assert text.count("<style>") == text.count("</style>") == 1
        assert {each.tag for svg in tree.findall(".//svg") for each in svg.iter()} <= SHAPES


def test_branches_stand_behind_the_path_on_screen() -> None:
    _, tree = page(branches=True)
    (branch,) = tree.findall(".//section")
    assert [each.get("id") for each in tree.findall(".//article")] == [
        f"m{n}" for n in range(1, 11)
    ]
    assert words(branch).startswith("Branch 1 Goes on after message 1 .")
    assert next(words(each)[-26:] for each in branch.findall("article")).endswith("two divisors.")
    links = {each.get("href") for each in tree.iter("a") if each.get("href").startswith("#")}
    assert links == {"#b1", "#m1"}
    assert {f"#{each.get('id')}" for each in tree.iter() if each.get("id")} >= links
    _, alone = page()
    assert not alone.findall(".//section")
    assert not [each for each in alone.iter("a") if each.get("href").startswith("#")]


def test_tints_are_of_the_stored_trace() -> None:
    text, tree = page(tints=True)
    (tokens,) = tree.findall(".//p[@class='tokens']")
    spans = tokens.findall("span")
    assert tokens.text_content() == "Ten 🙂=1+1<b>."
    assert [each.get("title") for each in spans] == [
        "ID 100 · 90.0%",
        "ID 101 · 50.0%, ID 102 · 50.0%",
        "ID 103 · 2.0%",
        "ID 104 · 30.0%",
    ]
    assert [each.get("class") for each in spans] == ["t1", "t8", "t15", "t11"]
    assert N_LEVELS == html_page.N_TINTS
    assert all(f".t{level} " in text for level in range(N_LEVELS))


def test_reasoning_can_be_left_out() -> None:
    text, _ = page(reasoning=False)
    assert "Reasoning" not in text


def test_reasoning_that_is_left_out_is_not_told_by_its_tokens() -> None:
    chat = rich_chat()
    reply = replace(chat.whole.messages[5], content="It is 4", reasoning="a secret")
    chat.whole = replace(chat.whole, messages=(*chat.whole.messages[:5], reply))
    for pieces, shown in (
        ((b"<think>", b"a sec", b"ret", b"</think>", b"\n\n", b"It", b" is 4"), True),
        ((b"something", b" else"), False),
    ):
        chat.store._traces["m6"] = pack(trace_of(pieces))
        for reasoning in (True, False):
            choices = Choices("html", tints=True, reasoning=reasoning)
            text = "".join(html_page.page(chat, choices, NOON))
            said = words(lxml.html.document_fromstring(text.encode()).findall(".//article")[-1])
            assert ("a sec ret" in said) is (reasoning and shown)
            assert ("It is 4" in said) is (shown or not reasoning)
            assert "something else" not in said or reasoning


def test_times_that_are_none_here_are_told_as_they_are() -> None:
    """Wherever the machine is that tests it: in one of two zones these are out of range."""
    chat = rich_chat()
    for zone in (timezone(timedelta(hours=-14)), timezone(timedelta(hours=14)), UTC):
        for far in (datetime(9999, 12, 31, 23, 59, tzinfo=zone), datetime(1, 1, 1, tzinfo=zone)):
            last = replace(chat.whole.messages[0], created_at=far)
            chat.whole = replace(chat.whole, messages=(last, *chat.whole.messages[1:]))
            text = "".join(html_page.page(chat, Choices("html"), NOON))
            assert text.count("<article") == len(chat.stretches(all_versions=False)[0].messages)


def test_colours_are_those_of_the_window() -> None:
    light, _, dark = html_page.STYLE.read_text("utf-8").partition("@media screen")
    for text, colors in ((light, LIGHT), (dark, DARK)):
        told = re.findall(r"--([\w-]+): (#[0-9a-f]{6});", text)
        assert len(told) == 24
        assert all(getattr(colors, name.replace("-", "_")) == value for name, value in told)


def test_lists_and_quotes_close_as_they_opened() -> None:
    """Whatever comes after what: lxml mends nothing, and the parts stand in their places."""
    parts = ("- a\n  - b\n    > c\n\n", "1. d\n\n   e\n\n", "> f\n> - g\n\n", "text\n\n", "> h\n\n")
    for first in parts:
        for second in parts:
            source = first + second + first
            chat = rich_chat()
            made = "".join(BlockWriter(chat.drawings).pieces(whole_blocks(source)))
            tree = lxml.html.etree.fromstring(f"<div>{made}</div>".replace("<hr>", "<hr/>"))
            letters = re.findall(r"\b[a-h]\b", source.replace("text", ""))
            assert re.findall(r"\b[a-h]\b", " ".join(tree.itertext())) == letters
            for item in tree.iter("li"):
                assert item.getparent().tag in ("ul", "ol")
            for name, inside in (("c", "blockquote"), ("b", "ul"), ("g", "blockquote")):
                places = [each for each in tree.iter("p") if each.text == name]
                assert all(inside in [a.tag for a in each.iterancestors()] for each in places)


def test_a_picture_that_is_none_is_named() -> None:
    chat = rich_chat()
    chat.store._files["a-photo <1>.png"] = b"<svg onload='alert(1)'/>"  # type: ignore[attr-defined]
    text = "".join(html_page.page(chat, Choices("html"), NOON))
    assert "<img" not in text
    assert "photo &lt;1&gt;.png" in text
    assert png().startswith(b"\x89PNG")

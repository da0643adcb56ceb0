"""Emphasis beside Chinese, Japanese and Korean; everything else as CommonMark has it."""

from __future__ import annotations

from each import each
from examples import examples
from hypothesis import given, settings, strategies as st
from markdown_it import MarkdownIt

from app.markdown import emphasis


def markdown(*, is_amended: bool) -> MarkdownIt:
    made = MarkdownIt("js-default", {"html": False, "linkify": False})
    if is_amended:
        emphasis.use(made)
    return made


AMENDED = markdown(is_amended=True)
PLAIN = markdown(is_amended=False)


def shown(source: str) -> str:
    return str(AMENDED.renderInline(source))


@each(
    ("source", "html"),
    [
        ("这是**重点。**然后", "这是<strong>重点。</strong>然后"),
        ("**중요:**입니다", "<strong>중요:</strong>입니다"),
        ("これは**「重要」**です", "これは<strong>「重要」</strong>です"),
        ("太郎は*「今日は」*と言った", "太郎は<em>「今日は」</em>と言った"),
        ("这是**“重点”**的", "这是<strong>“重点”</strong>的"),
        ("価格は**(税込)**です", "価格は<strong>(税込)</strong>です"),
        ("这里~~删除。~~然后", "这里<s>删除。</s>然后"),
        ("**重点。**Then", "<strong>重点。</strong>Then"),
        ("葛\U000e0100**(注)**だ", "葛\U000e0100<strong>(注)</strong>だ"),
        ("**一。**然后**二：**来", "<strong>一。</strong>然后<strong>二：</strong>来"),
        ("**[링크](http://a.test)**를", '<strong><a href="http://a.test">링크</a></strong>를'),
        # Not marks: escaped, in code, beside a space, an underscore within a word.
        (r"\*\*重点。\*\*然后", "**重点。**然后"),
        ("`**重点。**`然后", "<code>**重点。**</code>然后"),
        ("** 重点。**然后", "** 重点。**然后"),
        ("他说__重点。__然后", "他说__重点。__然后"),
        # An emoji is wide and yet no letter of a script without spaces.
        ("🙂**“x”**a", "🙂**“x”**a"),
    ],
)
def test_marks_beside_cjk(source: str, html: str) -> None:
    assert shown(source) == html


@settings(deadline=None, max_examples=examples(300))
@given(st.text(alphabet="ab 1*_~.,:!()“é—🙂\\`\n", max_size=30))
def test_without_cjk_all_is_as_in_commonmark(source: str) -> None:
    assert AMENDED.render(source) == PLAIN.render(source)


def test_characters_of_cjk() -> None:
    got = [emphasis.is_cjk(char) for char in "语。「ーｶ한ᄀ\u1160〒（"]
    assert all(got)
    assert not any(emphasis.is_cjk(char) for char in "aé“”—!🙂⌚ \n")

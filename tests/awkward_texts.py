"""Texts that tokenisers get wrong."""

from __future__ import annotations

from typing import Final

AWKWARD: Final = (
    "",
    " ",
    "\n",
    "Hello world",
    "The capital of France is",
    " leading and trailing  ",
    "many          spaces\t\ttabs\n\n\n\nlines\r\n\r\nwindows",
    "    indented = {\n        'code': [1, 22, 333, 4444],  # why?\n    }",
    "It's we're I'll HE'S they'D o'clock 's 't",
    "3.14159 1,000,000 2026-11-28 1٢३ ½ Ⅷ ²",
    "https://example.org/a/b?c=d&e=f#g%20h user@mail.example",
    "naïve café Zürich ŽŠČ ﬁ ǅ",
    "e\u0301 a\u0308\u0323 \u1100\u1161\u11a8 क्षि กำ",
    "日本語の文章。漢字とかな、カタカナ。 模型 你好，世界！",
    "한국어 텍스트 العربية עברית ไทย हिन्दी",
    "🙂👍🏽👩‍👩‍👧‍👦🏳️‍🌈🇩🇪❤️‍🔥",
    "\u200b\u200d\ufeff\u00a0\u2003\u2028\u3000x",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𒀀 𓀀 \U0001f9ff \U00031350 \U000e0041",
    "Donaudampfschifffahrtsgesellschaftskapitän pneumonoultramicroscopicsilicovolcanoconiosis",
    "a" * 300,
    "aàaàa" * 40,
    "=" * 80 + "\n" + "-" * 33 + "!?!?…",
    "<s> </s> <|im_start|>user\n<|endoftext|> <bos> <unk> [INST] <0x0A> <start_of_turn>",
    "▁▁ Ġ Ċ ĠĠthe â€™ \ufffd \x00\x01\x7f",
    "def f(x):\n\treturn x**2 if x>0 else -x # 中文 комментарий\n",
    "SELECT \"a\", b'x' FROM t WHERE x <> 1 AND y LIKE '%z%';",
    "<html><table><td>1</td></table></html>",
    "\\frac{a}{b} $x^2$ \\n \\u0041",
)
"""Emoji families, CJK, combining marks, long words, many spaces, digits, URLs, code, mixtures."""

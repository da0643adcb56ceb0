"""What a chat template knows about reasoning, found out by rendering it.

    reads       every name that the template takes from outside (Jinja's syntax tree)
    tries       each of them unset, true, false, and as the words that the template compares it with
    keeps       those that change what stands before a reply, in a way that has to do with reasoning

A short chat is rendered, with and without a system prompt. So Qwen's `enable_thinking` is found by
the empty `<think>` block that it writes, gpt-oss's `reasoning_effort` by the line that it changes,
and a variable of any other name in the same way. Names only decide between several. A template
without such a variable may look for a flag in the system prompt (Nemotron's `/no_think`).

Everything here runs in the template process, under its limits: it is somebody's program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jinja2 import meta, nodes

from app.engine.protocol.template_messages import TemplateFailed
from app.engine.protocol.template_variables import as_text
from app.engine.protocol.thinking_messages import (
    OFF,
    ON,
    TemplateInspected,
    ThinkingChoice,
    ThinkingOffer,
)
from app.engine.text.reasoning import KNOWN, opened_reasoning, used_tags

Value = bool | int | str
Values = dict[str, Value]
Run = Callable[[list[dict[str, Any]], Values], str]
"""Renders messages with these variables. Raises TemplateFailed."""

USUAL_EFFORTS: Final = ("low", "medium", "high")
LADDER: Final = ("none", "minimal", *USUAL_EFFORTS, "xhigh", "max")
"""Efforts that are in use, from little to much. A template that prints whatever it is given names
none, or its default alone; the usual three are offered then."""

_STEPS: Final = frozenset(LADDER)
_YES: Final = frozenset({"on", "enabled", "true", "yes"})
_NO: Final = frozenset({"none", "off", "disabled", "false", "no"})
_MAX_NAMES: Final = 48
_MAX_WORDS: Final = 12
_MAX_LENGTH: Final = 64
"""Of a name and of a word that is tried."""

_WORD: Final = re.compile(rf"\S{{1,{_MAX_LENGTH}}}")
"""What a setting holds as a choice."""

_GIVEN: Final = frozenset(
    {"messages", "add_generation_prompt", "bos_token", "eos_token", "tools", "documents"}
    | {"unk_token", "pad_token", "sep_token", "cls_token", "mask_token"}
)
"""What every template is given anyhow."""

_ABOUT: Final = re.compile(r"think|thought|reason|reflect", re.IGNORECASE)
_CHANNEL: Final = "Valid channels: analysis"
"""What gpt-oss's system message says; its reasoning stands in a channel, and not between tags."""
_FLAG: Final = re.compile(r"/(no_?)?(think|reason)\w*", re.IGNORECASE)
_EFFORT: Final = re.compile(r"effort|level", re.IGNORECASE)
_USER: Final = {"role": "user", "content": "Hi"}
_SYSTEM: Final = "Be brief."


def inspect(
    tree: nodes.Template, source: str, run: Run, tags: Sequence[tuple[str, str]] = ()
) -> TemplateInspected:
    """`tree`: the parsed `source`; `tags`: own pairs around reasoning, besides the known ones."""
    found = _Inspection(run, _reads(tree), tags)
    choices, auto, used = found.choices()
    if not choices:
        choices, auto = found.flags(tree)
    offer = ThinkingOffer(
        choices=[choice.name for choice in choices],
        auto=auto,
        variables=[n for n, one in found.reads.items() if n not in used and not one.is_own],
        has_reasoning=bool(choices) or any(tag in source for tag in found.tags),
    )
    told = [
        ThinkingChoice(
            one.name,
            as_text(one.variables),
            one.flag,
            opens=found.opens(one.variables, one.flag),
            needs_no_system=found.needs_no_system(one.variables),
        )
        for one in choices
    ]
    return TemplateInspected(offer, told, found.budget, found.opens({}))


@dataclass(slots=True)
class _Variable:
    """A name that the template reads; `words` are the constants that it is compared with, set to by
    default, or looked up by. `is_number`: there are numbers among them. `is_own`: the template sets
    it, without a look at what it was given."""

    name: str
    words: list[str] = field(default_factory=list)
    is_number: bool = False
    is_own: bool = False


def _reads(tree: nodes.Template) -> dict[str, _Variable]:
    names = sorted(meta.find_undeclared_variables(tree) - _GIVEN)
    found = {name: _Variable(name) for name in names if len(name) <= _MAX_LENGTH}
    for name, constant in _constants(tree):
        variable = found.get(name)
        if variable is None or isinstance(constant, bool):
            continue
        if isinstance(constant, int | float):
            variable.is_number = True
        elif isinstance(constant, str) and _WORD.fullmatch(constant):
            variable.words.append(constant)
    for variable in found.values():
        variable.words = list(dict.fromkeys(variable.words))[:_MAX_WORDS]
    asked = {
        test.node.name
        for test in tree.find_all(nodes.Test)
        if isinstance(test.node, nodes.Name) and test.name in ("defined", "undefined", "none")
    }
    for assigned in tree.find_all(nodes.Assign):
        name = assigned.target.name if isinstance(assigned.target, nodes.Name) else ""
        if name in found and name not in asked and not _keeps(assigned.node, name):
            found[name].is_own = True
    return dict(list(found.items())[:_MAX_NAMES])


def _keeps(node: nodes.Node, name: str) -> bool:
    """Whether `set x = …` may leave x as it was (`x or "a"`, `x if … else "a"`)."""
    is_choice = isinstance(node, nodes.Or | nodes.And | nodes.CondExpr) or (
        isinstance(node, nodes.Filter) and node.name in ("default", "d")
    )
    return is_choice and any(each.name == name for each in node.find_all(nodes.Name))


def _constants(tree: nodes.Template) -> Iterator[tuple[str, object]]:
    """(name, constant) of each place where a name meets a constant.

    Compared (`x == "low"`, `x in ["low", "high"]`), set (`set x = "medium"`), by default
    (`x or "medium"`, `x | default("low")`), or as a key (`{"low": 1}[x]`).
    """
    for compared in tree.find_all(nodes.Compare):
        sides = [compared.expr, *(operand.expr for operand in compared.ops)]
        for name in _names(sides):
            yield from ((name, each) for side in sides for each in _values(side))
    for assigned in tree.find_all(nodes.Assign):
        if isinstance(assigned.target, nodes.Name):
            yield from ((assigned.target.name, each) for each in _values(assigned.node))
    for either in tree.find_all(nodes.Or):
        sides = [either.left, either.right]
        for name in _names(sides):
            yield from ((name, each) for side in sides for each in _values(side))
    for filtered in tree.find_all(nodes.Filter):
        if filtered.name in ("default", "d") and isinstance(filtered.node, nodes.Name):
            yield from ((filtered.node.name, e) for arg in filtered.args for e in _values(arg))
    for looked_up in tree.find_all(nodes.Getitem):
        table = looked_up.node
        keys = [pair.key for pair in table.items] if isinstance(table, nodes.Dict) else [table]
        if isinstance(table, nodes.Dict | nodes.Const):
            for name in _names([looked_up.arg]):
                yield from ((name, each) for key in keys for each in _values(key))


def _names(sides: Iterable[nodes.Node | None]) -> Iterator[str]:
    """Names among them, also behind a filter (`x | lower`)."""
    for side in sides:
        while isinstance(side, nodes.Filter):
            side = side.node
        if isinstance(side, nodes.Name):
            yield side.name


def _values(node: nodes.Node) -> Iterator[object]:
    if isinstance(node, nodes.Neg) and isinstance(node.node, nodes.Const):
        yield node.node.value
    elif isinstance(node, nodes.Const):  # the parser folds a list of constants into one
        is_several = isinstance(node.value, list | tuple | dict)
        yield from node.value if is_several else [node.value]
    elif isinstance(node, nodes.List | nodes.Tuple):
        for item in node.items:
            yield from _values(item)
    elif isinstance(node, nodes.CondExpr):
        for branch in (node.expr1, node.expr2):
            yield from _values(branch) if branch is not None else ()


@dataclass(frozen=True, slots=True)
class _Choice:
    """As `ThinkingChoice`."""

    name: str
    variables: Values
    flag: str = ""


Text = tuple[str, ...]
"""How the short chats read; one that was refused is empty."""


class _Inspection:
    """Renders, and remembers how the chats read with which variables."""

    def __init__(
        self, run: Run, reads: dict[str, _Variable], tags: Sequence[tuple[str, str]]
    ) -> None:
        self._run = run
        self.reads = reads
        self._own = tags
        self.tags = [*(opening for opening, _ in tags), *(one.opening for one in KNOWN), _CHANNEL]
        self.budget = ""
        self._seen: dict[tuple[tuple[str, Value], ...], Text] = {}
        self._usual = self._text({})

    # --- by variables ---------------------------------------------------------------------------

    def choices(self) -> tuple[list[_Choice], str, set[str]]:
        """What can be chosen by variables; what the template takes by itself; their names."""
        names = [name for name, variable in self.reads.items() if not variable.is_own]
        switches = [(name, pair) for name in names if (pair := self._switch(name)) is not None]
        efforts = [(name, words) for name in names if (words := self._efforts(name, {}))]
        switch = min(switches, key=lambda each: self._rank(each[0]), default=None)
        effort = min(efforts, key=lambda each: self._rank(each[0]), default=None)
        used = {each[0] for each in (switch, effort) if each is not None}
        choices: list[_Choice] = []
        base: Values = {}
        if switch is not None:
            base, off = switch[1]
            choices += [_Choice(OFF, off), _Choice(ON, base)]
        if effort is None and switch is not None:  # some efforts count only where it is on
            below = [
                (n, words) for n in names if n not in used and (words := self._efforts(n, base))
            ]
            effort = min(below, key=lambda each: self._rank(each[0]), default=None)
        if effort is not None:
            used.add(effort[0])
            choices += self._levels(effort[0], effort[1], base, has_switch=switch is not None)
        usual = next((one.name for one in choices if self._text(one.variables) == self._usual), "")
        return choices, usual, used

    def _levels(
        self, name: str, words: list[str], base: Values, *, has_switch: bool
    ) -> Iterator[_Choice]:
        """An effort is on as well. Words that mean on and off are called so."""
        taken = {OFF, ON} if has_switch else set[str]()
        for word in words:
            called = OFF if word.lower() in _NO else ON if word.lower() in _YES else word
            if called in taken or called == "auto":
                continue
            taken.add(called)
            yield _Choice(called, {**base, name: word})

    def _switch(self, name: str) -> tuple[Values, Values] | None:
        """What to set for on and off, where this name is a switch of reasoning."""
        variable = self.reads[name]
        if variable.is_number:
            return self._number_switch(name)
        on, off = self._text({name: True}), self._text({name: False})
        if on == off or not _rendered(on) or not _rendered(off):
            return None
        if _prints(True, on, off) or _prints(False, off, on):
            return None  # it writes whatever it is given
        return ({name: True}, {name: False}) if self._is_about(name, on, off) else None

    def _number_switch(self, name: str) -> tuple[Values, Values] | None:
        """A number of tokens (Seed-OSS): none is off, and on is what the template does unasked."""
        off, some = self._text({name: 0}), self._text({name: 512})
        if off == self._usual or not _rendered(off) or not self._is_about(name, self._usual, off):
            return None
        if _rendered(some) and some not in (self._usual, off):
            self.budget = name
        return {}, {name: 0}

    def _efforts(self, name: str, base: Values) -> list[str]:
        """The words that this name can be, each with a text of its own, from little to much."""
        variable = self.reads[name]
        if variable.is_number:
            return []
        words = self._told_apart(name, variable.words, base)
        may_be_any = _EFFORT.search(name) if not variable.words else set(variable.words) <= _STEPS
        if len(words) < 2 and may_be_any:
            # It may be printed as it is given: then the usual ones can be seen in the text.
            usual = self._told_apart(name, [*variable.words, *USUAL_EFFORTS], base)
            texts = [self._text({**base, name: word}) for word in usual]
            if all(map(_prints, usual, texts, [*texts[1:], *texts[:1]])):
                words = usual
        if len(words) < 2:
            return []
        one, other = (self._text({**base, name: word}) for word in words[:2])
        is_ladder = len(_STEPS.intersection(variable.words)) > 1
        if not (
            is_ladder
            or self._is_about(name, one, other)
            or self._is_about(name, one, self._text(base))
        ):
            return []
        known = [word for word in LADDER if word in words]
        return [*known, *(word for word in words if word not in known)]

    def _told_apart(self, name: str, words: Iterable[str], base: Values) -> list[str]:
        """Those that the template takes, if they do not all read the same."""
        taken = [w for w in dict.fromkeys(words) if _rendered(self._text({**base, name: w}))]
        texts = {self._text({**base, name: word}) for word in taken}
        return taken if len(texts) > 1 else []

    def _is_about(self, name: str, one: Text, other: Text) -> bool:
        """Whether a difference has to do with reasoning: a tag or a word in it, or the name."""
        if one == other:
            return False
        return bool(_ABOUT.search(name)) or self._shows(one, other)

    def _shows(self, one: Text, other: Text) -> bool:
        apart = [part for pair in zip(one, other, strict=True) for part in _apart(*pair)]
        return any(_ABOUT.search(part) or any(tag in part for tag in self.tags) for part in apart)

    def _rank(self, name: str) -> tuple[bool, str]:
        """Of several the one that is called so."""
        return (not _ABOUT.search(name), name)

    # --- by flags -------------------------------------------------------------------------------

    def flags(self, tree: nodes.Template) -> tuple[list[_Choice], str]:
        """Texts that the template looks for in a system prompt, if they do anything."""
        looked_for = [
            constant.value
            for compared in tree.find_all(nodes.Compare)
            if any(operand.op == "in" for operand in compared.ops)
            for constant in [compared.expr]
            if isinstance(constant, nodes.Const) and isinstance(constant.value, str)
        ]
        texts = {flag: self._flagged(flag) for flag in looked_for if _FLAG.fullmatch(flag)}
        usual = self._flagged("")
        choices, auto = list[_Choice](), ""
        for flag, text in texts.items():
            name = OFF if flag[1:].lower().startswith("no") else ON
            if _rendered(text) and not any(choice.name == name for choice in choices):
                choices.append(_Choice(name, {}, flag))
                auto = name if text == usual else auto
        is_switch = len({texts[choice.flag] for choice in choices} | {usual}) > 1
        choices.sort(key=lambda choice: choice.name != OFF)
        return (choices, auto) if is_switch else ([], "")

    def _flagged(self, flag: str) -> Text:
        """How a chat reads with it, and without the flag itself."""
        try:
            text = self._run([_system(f"{_SYSTEM}\n{flag}".strip()), _USER], {})
        except TemplateFailed:
            return ("",)
        return (re.sub(rf"\s*{re.escape(flag)}\b", "", text) if flag else text,)

    def opens(self, variables: Values, flag: str = "") -> bool:
        """Whether a prompt ends inside reasoning."""
        text = next((text for text in self._text(variables) if text), "")
        if flag:
            text = self._flagged(flag)[0]
        return opened_reasoning(text, used_tags(self._own)) is not None

    def needs_no_system(self, variables: Values) -> bool:
        """Whether they do nothing where there is a system prompt, and something elsewhere."""
        alone, below = self._text(variables)
        return alone != self._usual[0] and below == self._usual[1] and bool(below)

    # --- texts ----------------------------------------------------------------------------------

    def _text(self, variables: Values) -> Text:
        # The type belongs to the key: True equals 1.
        key = tuple(sorted((name, repr(value)) for name, value in variables.items()))
        if key not in self._seen:
            chats = ([_USER], [_system(_SYSTEM), _USER])
            self._seen[key] = tuple(self._rendered(chat, variables) for chat in chats)
        return self._seen[key]

    def _rendered(self, messages: list[dict[str, Any]], variables: Values) -> str:
        try:
            return self._run(messages, variables)
        except TemplateFailed:
            return ""


def _system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def _rendered(text: Text) -> bool:
    """Whether any of the chats was taken."""
    return any(text)


def _prints(value: Value, text: Text, other: Text) -> bool:
    """Whether the value itself stands where the texts part, so that it is written, not asked."""
    word = str(value)
    parts = [_apart(*pair, whole_words=True) for pair in zip(text, other, strict=True)]
    return any(word in one and word not in another for one, another in parts)


def _apart(one: str, other: str, *, whole_words: bool = False) -> tuple[str, str]:
    """What is left of two texts without their common beginning and end. `whole_words`: no word is
    cut in two."""
    start, most = 0, min(len(one), len(other))
    while start < most and one[start] == other[start]:
        start += 1
    end = 0
    while end < most - start and one[-1 - end] == other[-1 - end]:
        end += 1
    if whole_words:
        while start and one[start - 1].isalnum():
            start -= 1
        while end and one[len(one) - end].isalnum():
            end -= 1
    return one[start : len(one) - end], other[start : len(other) - end]

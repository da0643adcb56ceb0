"""What `ask` was told becomes the request: the file, then the options; docs name all of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from app.chat.settings.formats import template_of
from app.command_line import cli
from app.command_line.settings import KNOWN, AskSettings
from app.engine.protocol.adapter_messages import Adapters, ControlVector, Lora
from app.engine.protocol.cut_messages import Cut
from app.engine.protocol.draft_messages import Drafts
from app.engine.protocol.loading_messages import LoadOptions, RopeScaling
from app.engine.protocol.messages import Generate
from app.engine.protocol.prompt_messages import ChatMessage, ChatPrompt
from app.engine.protocol.stages import (
    AdaptiveP,
    Dist,
    Dry,
    DynamicTemperature,
    FilterStage,
    Greedy,
    LogitBias,
    MinP,
    Mirostat,
    MirostatV2,
    Penalties,
    Sampling,
    SelectStage,
    Temperature,
    TokenBias,
    TopK,
    TopNSigma,
    TopP,
    Typical,
    Xtc,
)
from app.refusal import Refusal
from app.strict_reading import snake

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def settings(tmp_path: Path) -> Any:
    def read(file: dict[str, Any] | str, *argv: str) -> AskSettings:
        path = tmp_path / "settings.json"
        path.write_text(file if isinstance(file, str) else json.dumps(file), encoding="utf-8")
        return cli._settings(cli._parse(["x", "--settings", str(path), *argv]))

    return read


def _refused(settings: Any, file: Any, *argv: str) -> str:
    with pytest.raises(Refusal) as refused:
        settings(file, *argv)
    assert refused.value.kind == "bad_setting"
    assert "\n" not in refused.value.sentence
    return refused.value.sentence


def test_every_stage_can_stand_in_a_chain(settings: Any) -> None:
    stages: list[Any] = [
        LogitBias([TokenBias(token_id=5, bias=1.5), TokenBias(text=" the", ban=True)]),
        Penalties(32, 1.1, 0.1, 0.2),
        Dry(0.5, 2.0, 3, 100, ["\n"]),
        TopNSigma(2.0),
        TopK(5),
        Typical(0.9, 2),
        TopP(0.8, 2),
        MinP(0.1, 2),
        Xtc(0.3, 0.2, 2),
        Temperature(0.7),
        DynamicTemperature(0.7, 0.2, 2.0),
    ]
    assert {type(stage) for stage in stages} == set(get_args(FilterStage))
    selecting: list[Any] = [
        Greedy(), Dist(), Mirostat(4.0, 0.2, 50), MirostatV2(4.0, 0.2), AdaptiveP(0.3, 0.5),
    ]  # fmt: skip
    assert {type(stage) for stage in selecting} == set(get_args(SelectStage))
    for select in selecting:
        chain = [_written(stage) for stage in [*stages, select]]
        assert settings({"chain": chain}).sampling() == Sampling(filters=stages, select=select)


def _written(stage: Any) -> dict[str, Any]:
    fields = msgspec.to_builtins(stage)
    fields.pop("@")
    for bias in fields.get("biases", []):
        bias.pop("@")
    return {"stage": snake(type(stage).__name__), **fields}


_PLAIN = Generate(0, ChatPrompt([]))


def test_everything_of_a_request_can_be_said(settings: Any) -> None:
    file = {
        "seed": 3,
        "max_tokens": 9,
        "stop_strings": ["END"],
        "stop_in_reasoning": True,
        "reasoning_tags": ["<a> ... </a>", "[T]…[/T]"],
        "stop_ids": [7, 11],
        "cuts": [{"kind": "head", "layer": 3, "index": 1}, {"kind": "ffn", "layer": 2}],
        "cut_mode": "zero",
        "loras": [{"path": "/l.gguf", "scale": 0.5}],
        "control_vectors": [{"path": "/v.gguf", "scale": -2, "first": 3, "last": 9}],
        "grammar": 'root ::= "a"',
        "banned_strings": ["b"],
        "min_tokens": 2,
        "ban_end_token": True,
        "context_policy": "drop_oldest",
        "repeatable": True,
        "drafts": "model",
        "draft_tokens": 5,
        "score_prompt": True,
        "record_stages": True,
        "alternatives": 64,
        "reuse_prefix": False,
        "deadline_s": 5,
        "template": "{{ 1 }}",
        "system_prompt": "S",
        "messages": [
            {"role": "user", "content": "a", "is_pinned": True},
            {"role": "assistant", "content": "b", "reasoning": "r"},
        ],
        "reply_start": "Sure",
        "reasoning_start": "Hm",
        "thinking": "low",
        "reasoning_budget": 20,
        "template_variables": {"date": "today"},
    }
    asked = settings(file)
    prompt = asked.chat_prompt("x")
    assert prompt == ChatPrompt(
        [
            ChatMessage("system", "S"),
            ChatMessage("user", "a", is_pinned=True),
            ChatMessage("assistant", "b", "r"),
            ChatMessage("user", "x"),
            ChatMessage("assistant", "Sure", "Hm"),
        ],
        thinking="low",
        reasoning_budget=20,
        variables='{"date": "today"}',
        template="{{ 1 }}",
        continue_last=True,
        reasoning_tags=[("<a>", "</a>"), ("[T]", "[/T]")],
    )
    generate = asked.generate(prompt, with_trace=False)
    assert generate == Generate(
        0,
        prompt,
        msgspec.structs.replace(
            asked.window.sampling(),
            seed=3,
            grammar='root ::= "a"',
            banned_strings=["b"],
            min_tokens=2,
            ban_end_token=True,
        ),
        max_tokens=9,
        stop=["END"],
        conversation="ask",
        alternatives=64,
        record_stages=True,
        reuse_prefix=False,
        deadline_s=5.0,
        context_policy="drop_oldest",
        repeatable=True,
        score_prompt=True,
        stop_ids=[7, 11],
        stop_in_reasoning=True,
        cuts=[Cut("head", 3, 1), Cut("ffn", 2)],
        cut_mode="zero",
        drafts=Drafts("model", 5),
        adapters=Adapters([Lora("/l.gguf", 0.5)], [ControlVector("/v.gguf", -2.0, 3, 9)]),
    )
    # Who steps or branches looks at what was drawn: that is done in the window. `ask` stores no
    # chat, so nothing of it is saved.
    not_asked = {"id", "hold", "forced_ids", "reply_id", "is_stored", "is_background", "is_guest"}
    fields = set(Generate.__struct_fields__) - not_asked
    assert all(getattr(generate, name) != getattr(_PLAIN, name) for name in fields)


def test_every_load_option_can_be_said(settings: Any, tmp_path: Path) -> None:
    options = LoadOptions(
        n_ctx=512,
        n_threads=3,
        n_gpu_layers=4,
        n_ubatch=64,
        type_k="q8_0",
        type_v="q4_0",
        flash_attention="on",
        use_mmap=False,
        use_mlock=True,
        devices=["CUDA0"],
        tensor_split=[0.5, 0.5],
        split_mode="row",
        main_device=1,
        cpu_moe_layers=-1,
        rope=RopeScaling("yarn", 10.0, 0.5, 2048, 1.0, 1.0, 32.0, 1.0),
        loras=[Lora(str(tmp_path / "a.gguf"), 0.5)],
        n_slots=2,
        parked_bytes=1000,
        governor=False,
        draft=str(tmp_path / "small.gguf"),
    )
    assert all(
        getattr(options, name) != getattr(LoadOptions(), name)
        for name in LoadOptions.__struct_fields__
    )
    load = {k: _plain(v) for k, v in msgspec.to_builtins(options).items() if k != "@"}
    assert settings({"load": load}).load_options() == options


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if k != "@"}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def test_options_change_the_stages_of_a_chain(settings: Any) -> None:
    file = {"chain": [{"stage": "top_k", "k": 5}, {"stage": "temperature", "t": 1},
                      {"stage": "dist"}]}  # fmt: skip
    asked = settings(file, "--temperature", "0.5", "--min-p", "0.2", "--repeat-penalty", "1.3")
    assert asked.sampling().filters == [
        TopK(5), Temperature(0.5), MinP(0.2), Penalties(repeat=1.3),
    ]  # fmt: skip
    assert settings(file, "--temp", "0").sampling().select == Greedy()
    assert settings({"chain": []}).sampling() == Sampling(filters=[], select=Dist())


def test_options_go_before_the_load_options_of_the_file(settings: Any, tmp_path: Path) -> None:
    asked = settings(
        {"load": {"n_ctx": 512, "type_k": "f16", "n_threads": 9}},
        "--ctx", "1024", "--kv-type", "q8_0,q4_0", "--flash-attention", "on", "--gpu-layers", "7",
        "--lora", f"{tmp_path}/a.gguf:0.25", "--lora", "/b.gguf", "--threads", "0",
    )  # fmt: skip
    options = asked.load_options()
    assert (options.n_ctx, options.n_threads, options.n_gpu_layers) == (1024, None, 7)
    assert (options.type_k, options.type_v, options.flash_attention) == ("q8_0", "q4_0", "on")
    assert options.loras == [Lora(f"{tmp_path}/a.gguf", 0.25), Lora("/b.gguf")]
    assert settings({}, "--kv-type", "q8_0").load_options().type_v == "q8_0"


def test_adapters_are_a_files_or_an_options(settings: Any, tmp_path: Path) -> None:
    asked = settings(
        {"load": {"loras": [{"path": "/old.gguf"}]}},
        "--lora", f"{tmp_path}/a.gguf:0.25", "--control-vector", "/v.gguf",
        "--control-vector", "/c:d/w.gguf:-1.5:8-20", "--control-vector", "/x.gguf:2",
    )  # fmt: skip
    adapters = asked.generate("", with_trace=False).adapters
    assert adapters.loras == asked.load_options().loras == [Lora(f"{tmp_path}/a.gguf", 0.25)]
    assert adapters.vectors == [
        ControlVector("/v.gguf"),
        ControlVector("/c:d/w.gguf", -1.5, 8, 20),
        ControlVector("/x.gguf", 2.0),
    ]
    old = settings({"load": {"loras": [{"path": "/old.gguf", "scale": 2}]}})
    assert old.generate("", with_trace=False).adapters.loras == [Lora("/old.gguf", 2.0)]


def test_options_of_the_request(settings: Any, tmp_path: Path) -> None:
    grammar, schema, template = (tmp_path / name for name in ("g.gbnf", "s.json", "t.jinja"))
    grammar.write_text('root ::= "a"')
    schema.write_text('{"type": "object"}')
    template.write_text("{{ 1 }}")
    asked = settings(
        {"grammar": "root ::= old", "banned_strings": ["old"], "context_policy": "stop",
         "stop_ids": [1]},
        "--json-schema", str(schema), "--ban", "new", "--policy", "drop_oldest",
        "--min-tokens", "3", "--repeatable", "--score-prompt", "--template", str(template),
        "--stop-id", "7", "--stop-id", "0", "--stop-in-reasoning", "--reasoning-tags", "<a>…</a>",
    )  # fmt: skip
    sampling = asked.sampling()
    assert (sampling.grammar, sampling.json_schema) == ("", '{"type": "object"}')
    assert (sampling.banned_strings, sampling.min_tokens) == (["new"], 3)
    generate = asked.generate(asked.chat_prompt("x"), with_trace=True)
    assert generate.repeatable
    assert generate.score_prompt
    assert generate.record_stages
    assert generate.context_policy == "drop_oldest"
    assert generate.stop_ids == [7, 0]
    assert generate.stop_in_reasoning
    assert generate.prompt.reasoning_tags == [("<a>", "</a>")]
    asked = settings(
        {"thinking": "on", "reasoning_start": "old"},
        "--thinking", "off", "--reasoning-budget", "9", "--reasoning-start", "Hm",
        "--template-variables", '{"date": "today"}',
    )  # fmt: skip
    prompt = asked.chat_prompt("x")
    assert (prompt.thinking, prompt.reasoning_budget) == ("off", 9)
    assert (prompt.variables, prompt.continue_last) == ('{"date": "today"}', True)
    assert prompt.messages[-1] == ChatMessage("assistant", "", "Hm")
    assert settings({"stop_ids": [1]}).generate(generate.prompt, with_trace=False).stop_ids == [1]
    assert generate.prompt.template == "{{ 1 }}"
    assert settings({"thinking": "OFF"}).chat_prompt("x").thinking == "off"
    assert settings({"thinking": " Auto "}).chat_prompt("x").thinking == ""
    asked = settings({"json_schema": {"type": "null"}}, "--grammar-file", str(grammar))
    assert (asked.sampling().grammar, asked.sampling().json_schema) == ('root ::= "a"', "")
    asked = settings({"template": "x"}, "--template-name", "tool_use")
    assert asked.chat_prompt("x").template_name == "tool_use"
    assert asked.chat_prompt("x").template is None


def test_a_schema_may_stand_there_as_an_object(settings: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert json.loads(settings({"json_schema": schema}).sampling().json_schema) == schema
    assert settings({"json_schema": "{}"}).sampling().json_schema == "{}"


def test_a_repeatable_run_has_a_seed(settings: Any) -> None:
    assert settings({}).sampling().seed is None
    assert settings({"repeatable": True}).sampling().seed == 0
    assert settings({"repeatable": True, "seed": 5}).sampling().seed == 5


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ({"thinking": "a bit"}, ["thinking mode", "one word"]),
        ({"template_variables": "[1]"}, ["object", "{"]),
        ({"template_variables": {"messages": []}}, ["“messages”", "can't be set"]),
        ({"template_variables": {"a b": 1}}, ["“a b”", "name"]),
        ({"template_variables": {"a": 2**70}}, ["“a”", "too large"]),
        ({"template_variables": '{"a": [NaN]}'}, ["can't hold NaN"]),
        ({"template_variables": '{"a": -Infinity}'}, ["can't hold -Infinity"]),
        ({"template_variables": '{"a": 1e999}'}, ["“a”", "too large"]),
        ({"template_variables": "x" * 100_001}, ["variables are limited"]),
        ({"template_variables": '{"a": "\\ud800"}'}, ["“a”", "broken"]),
        ({"template_variables": "{"}, ["JSON", "line 1"]),
        ({"template_variables": "[" * 30_000}, ["JSON"]),
        ({"reasoning_budget": -1}, ["reasoning limit", "from 0"]),
        ({"tempature": 1}, ["tempature", "Did you mean “temperature”?"]),
        ({"chain": [], "temperature": 1}, ["“chain”", "“temperature”"]),
        ({"chain": {}}, ["list"]),
        ({"chain": [{"stage": "dist"}, {"stage": "top_k"}]}, ["Stage 1", "last"]),
        ({"chain": [{"stage": "top_k", "k": "x"}]}, ["“k” in stage 1 (top_k)", "whole number"]),
        ({"chain": [{"stage": "top_kk"}]}, ["Did you mean “top_k”?"]),
        ({"chain": [{"stage": "logit_bias", "biases": [{"id": 1}]}]}, ["“id”", "item 1"]),
        ({"load": {"n_ctx": 1}, "n_ctx": 2}, ["“n_ctx”", "twice"]),
        ({"load": {"type_k": "q8_0"}, "type_k": "f16"}, ["“type_k”", "twice"]),
        ({"load": {"typ_k": "f16"}}, ["Did you mean “type_k”?"]),
        ({"messages": {}}, ["list"]),
        ({"messages": [{"role": "robot", "content": ""}]}, ["“role” in message 1", "“tool”"]),
        ({"messages": [{"role": "user"}]}, ["“content” is missing in message 1"]),
        ({"repeatable": "yes"}, ["“repeatable” in the file", "true or false"]),
        ({"banned_strings": "x"}, ["“banned_strings”", "list"]),
        ({"reply_start": 1}, ["“reply_start”", "text"]),
        ({"stop_ids": ["</s>"]}, ["1 of “stop_ids”", "whole number"]),
        ('{"deadline_s": Infinity}', ["Infinity", "deadline_s"]),
        ('{"deadline_s": 1e999}', ["deadline_s", "too large"]),
        ('{"chain": [{"stage": "temperature", "t": NaN}]}', ["NaN", "“t”"]),
        ({"temperature": -1}, ["temperature"]),
    ],
)
def test_what_does_not_fit_is_named(settings: Any, file: Any, words: list[str]) -> None:
    sentence = _refused(settings, file)
    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--lora", "a.gguf:nan"], ["LoRA", "number"]),
        (["--lora", ""], ["LoRA", "has no path"]),
        (["--control-vector", ""], ["control vector", "has no path"]),
        (["--control-vector", "a.gguf:nan:1-2"], ["control vector", "number"]),
        (["--control-vector", "a.gguf:1:9-2"], ["9 to 2"]),
        (["--control-vector", "a.gguf:1e9"], ["-100 and 100"]),
        (["--grammar-file", "/does/not/exist"], ["--grammar-file"]),
        (["--json-schema", "/does/not/exist"], ["--json-schema"]),
        (["--template", "/does/not/exist"], ["--template"]),
        (["--min-p", "nan"], ["Min-p"]),
        (["--stop-id", "</s>"], ["--stop-id"]),
    ],
)
def test_options_that_do_not_fit_are_named(settings: Any, argv: list[str], words: Any) -> None:
    sentence = _refused(settings, {}, *argv)
    assert all(word in sentence for word in words), sentence


def test_a_format_of_our_own_stands_in_for_the_template_of_the_file() -> None:
    def template(**values: object) -> object:
        settings = AskSettings()
        settings.take_file(values)
        return settings.chat_prompt("Hi").template

    assert template() is None
    assert template_of("chatml")
    assert template(chat_format="chatml") == template_of("chatml")
    assert template(chat_format="chatml", template="{{ 1 }}") == "{{ 1 }}"


def test_the_documentation_names_every_setting() -> None:
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    window_only = {
        "theme", "zoom_percent", "send_key", "window_geometry", "last_conversation_id",
        "section_visible", "section_width", "section_panel", "sidebar_visible", "sidebar_width",
        "token_view", "token_tint", "tour_at",
        "offline", "hub_endpoint", "hub_tokens_kept", "trash_days",
        "font_text", "font_reading", "font_mono", "text_px", "reading_px", "closed_folders",
        "weights_folders", "find_other_apps",
        "download_folder", "downloads_at_once", "download_limit_kbs",
        "saved_chats_mb", "unload_after_min", "embedding_model",
        "picture_side", "read_aloud", "voice", "voice_rate", "write_titles", "write_titles_remote",
        "engines", "local_engines_offline",
        "tool_servers", "tool_rounds", "tools", "tool_choice",
        "server_on", "server_port", "server_address", "server_key_kept", "server_names",
        "server_origins", "server_loads",
        "server_max_requests", "server_max_mb", "server_max_minutes",
    }  # fmt: skip
    wanted = [name for name in KNOWN if name not in window_only]
    wanted += LoadOptions.__struct_fields__
    for stage in (*get_args(FilterStage), *get_args(SelectStage)):
        wanted.append(snake(stage.__name__))
        line = next(x for x in text.splitlines() if x.startswith(f"| `{wanted[-1]}` |"))
        assert all(f"`{name}`" in line for name in stage.__struct_fields__), line
    assert [name for name in wanted if f"`{name}`" not in text] == []

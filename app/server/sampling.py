"""llama-server's sampling fields become our chain.

    {"temperature": 0.7, "top_k": 20, "samplers": ["top_k", "temperature"]}
        →  filters [TopK(20), Temperature(0.7)], select Dist()

Names, defaults and order are llama-server's; OpenAI's and Anthropic's fields of these names mean
the same. A stage that would change nothing is left out. A sampler that `samplers` leaves out does
not act, whatever its value: so it is in llama-server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from app.amounts import bytes_words
from app.engine.protocol.bounds import BadSetting, shown
from app.engine.protocol.messages import MAX_GRAMMAR_BYTES
from app.engine.protocol.stage_rules import MAX_BIASES, check_stages
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
from app.engine.protocol.template_variables import FIELD as TEMPLATE_VARIABLES
from app.server.errors import bad_request
from app.server.fields import Fields

ORDER: Final = (
    "penalties",
    "dry",
    "top_n_sigma",
    "top_k",
    "typ_p",
    "top_p",
    "min_p",
    "xtc",
    "temperature",
)
_ALIASES: Final = {
    "typical_p": "typ_p",
    "typical": "typ_p",
    "nucleus": "top_p",
    "temp": "temperature",
    "top-k": "top_k",
    "top-p": "top_p",
    "min-p": "min_p",
    "typ-p": "typ_p",
    "top-n-sigma": "top_n_sigma",
}
_LETTERS: Final = dict(zip("edskypmxta", (*ORDER, "adaptive_p"), strict=True))
MAX_SAMPLERS: Final = 32
RANDOM_SEEDS: Final = (-1, 2**32 - 1)

Maker = Callable[[Fields, int], FilterStage | None]


def read_sampling(fields: Fields, *, max_temperature: float = 100.0) -> Sampling:
    """All fields that shape a draw, without the seed. Raises ApiError."""
    order = _order(fields)
    keep = fields.whole("min_keep", 0, 0, 1_000_000)
    made = {name: make(fields, max(keep, 1)) for name, make in _MAKERS.items()}
    temperature = _temperature(fields, max_temperature)
    filters: list[FilterStage] = []
    bias = _biases(fields)
    if bias is not None:
        filters.append(bias)
    select = _mirostat(fields)
    adaptive = _adaptive(fields)
    if select is None:
        for name in order:
            stage = temperature if name == "temperature" else made.get(name)
            if stage is not None:
                filters.append(stage)
        select = adaptive if "adaptive_p" in order or adaptive.target >= 0 else Dist()
    elif temperature is not None:
        filters.append(temperature)
    if isinstance(temperature, Temperature) and temperature.t == 0 and temperature in filters:
        select = Greedy()
        filters.remove(temperature)
        # Nobody who didn't ask for one of these has to read that it has no effect.
        unasked = tuple(kind for name, kind in _KEEP_THE_BEST.items() if name not in fields)
        filters = [stage for stage in filters if not isinstance(stage, unasked)]
    return Sampling(filters, select, ban_end_token=fields.flag("ignore_eos"))


_KEEP_THE_BEST: Final = {"top_k": TopK, "top_p": TopP, "min_p": MinP}


def seeds_of(fields: Fields, count: int) -> list[int | None]:
    """One for each choice: the one that was asked for, and those after it."""
    seed = fields.any("seed")
    if seed is None or seed in RANDOM_SEEDS:
        return [None] * count
    first = fields.whole("seed", 0, 0, 2**32 - 2)
    return [(first + at) % (2**32 - 1) for at in range(count)]


def with_format(sampling: Sampling, fields: Fields) -> Sampling:
    """Bound by `response_format`, or by llama-server's `grammar` or `json_schema`."""
    schema, of = "", ""
    form = fields.object("response_format")
    if form is not None:
        kind = form.choice("type", ("text", "json_object", "json_schema"), "text")
        if kind == "json_object":
            of, schema = "response_format", schema_text(form, "schema", {"type": "object"})
        elif kind == "json_schema":
            of, inner = "response_format", form.object("json_schema")
            if inner is None:
                raise form.refuse("json_schema", "json_schema is missing in response_format.")
            inner.skip(("name", "description", "strict"))
            schema = schema_text(inner, "schema", None)
            inner.close()
        form.close()
    if "json_schema" in fields:
        if of:
            raise fields.refuse("json_schema", f"Send either json_schema or {of}, not both.")
        of, schema = "json_schema", schema_text(fields, "json_schema", None)
    grammar = fields.text("grammar")
    if grammar and schema:
        raise fields.refuse("grammar", f"Send either grammar or {of}, not both.")
    if len(grammar.encode()) > MAX_GRAMMAR_BYTES:
        raise fields.refuse(
            "grammar", f"A grammar may have at most {bytes_words(MAX_GRAMMAR_BYTES)}."
        )
    return msgspec.structs.replace(sampling, grammar=grammar, json_schema=schema)


def schema_text(fields: Fields, name: str, default: Any) -> str:
    """A JSON schema as the engine takes it."""
    value = fields.any(name, default)
    if not isinstance(value, dict):
        raise fields.refuse(name, f"{name} must be a JSON schema, not {shown(value)}.")
    text = msgspec.json.encode(value).decode()
    if len(text.encode()) > MAX_GRAMMAR_BYTES:
        raise fields.refuse(
            name, f"A JSON schema may have at most {bytes_words(MAX_GRAMMAR_BYTES)}."
        )
    return text


def check_sampling(sampling: Sampling) -> None:
    """Raise ApiError for a value that the engine would refuse, by the field's name here."""
    try:
        check_stages(sampling)
    except BadSetting as error:
        raise bad_request(error.sentence, sent_as(sampling, error.field)) from error


def sent_as(sampling: Sampling, place: str) -> str:
    """`filters[2].k` → top_k: the name that was sent."""
    if place == TEMPLATE_VARIABLES:
        return "chat_template_kwargs"
    head, _, attribute = place.partition(".")
    stage: object = sampling.select
    if head.startswith("filters["):
        number = head[8:].partition("]")[0]
        at = int(number) if number.isdigit() else len(sampling.filters)
        stage = sampling.filters[at] if at < len(sampling.filters) else None
    return _SENT_AS.get((type(stage), attribute.partition("[")[0]), place)


_SENT_AS: Final[dict[tuple[type, str], str]] = {
    (LogitBias, "biases"): "logit_bias",
    (Penalties, "last_n"): "repeat_last_n",
    (Penalties, "repeat"): "repeat_penalty",
    (Penalties, "frequency"): "frequency_penalty",
    (Penalties, "presence"): "presence_penalty",
    (Dry, "multiplier"): "dry_multiplier",
    (Dry, "base"): "dry_base",
    (Dry, "allowed_length"): "dry_allowed_length",
    (Dry, "last_n"): "dry_penalty_last_n",
    (Dry, "breakers"): "dry_sequence_breakers",
    (TopNSigma, "n"): "top_n_sigma",
    (TopK, "k"): "top_k",
    (Typical, "p"): "typical_p",
    (TopP, "p"): "top_p",
    (MinP, "p"): "min_p",
    (Xtc, "probability"): "xtc_probability",
    (Xtc, "threshold"): "xtc_threshold",
    (Temperature, "t"): "temperature",
    (DynamicTemperature, "t"): "temperature",
    (DynamicTemperature, "spread"): "dynatemp_range",
    (DynamicTemperature, "exponent"): "dynatemp_exponent",
    (Mirostat, "tau"): "mirostat_tau",
    (Mirostat, "eta"): "mirostat_eta",
    (MirostatV2, "tau"): "mirostat_tau",
    (MirostatV2, "eta"): "mirostat_eta",
    (AdaptiveP, "target"): "adaptive_target",
    (AdaptiveP, "decay"): "adaptive_decay",
}


# --- stages -----------------------------------------------------------------------------------


def _penalties(fields: Fields, _: int) -> Penalties | None:
    stage = Penalties(
        fields.whole("repeat_last_n", 64),
        float(fields.number("repeat_penalty", 1.0)),
        float(fields.number("frequency_penalty", 0.0)),
        float(fields.number("presence_penalty", 0.0)),
    )
    return None if (stage.repeat, stage.frequency, stage.presence) == (1.0, 0.0, 0.0) else stage


def _dry(fields: Fields, _: int) -> Dry | None:
    breakers = fields.any("dry_sequence_breakers")
    stage = Dry(
        float(fields.number("dry_multiplier", 0.0)),
        float(fields.number("dry_base", 1.75)),
        fields.whole("dry_allowed_length", 2),
        fields.whole("dry_penalty_last_n", -1),
    )
    if breakers is not None:
        texts = fields.texts("dry_sequence_breakers", most=MAX_SAMPLERS)
        stage = msgspec.structs.replace(stage, breakers=texts)
    return stage if stage.multiplier else None


def _top_n_sigma(fields: Fields, _: int) -> TopNSigma | None:
    n = float(fields.number("top_n_sigma", -1.0))
    return TopNSigma(n) if n > 0 else None


def _top_k(fields: Fields, _: int) -> TopK | None:
    k = fields.whole("top_k", 40)
    return TopK(k) if k > 0 else None


def _typical(fields: Fields, keep: int) -> Typical | None:
    p = float(fields.number("typical_p", 1.0))
    return Typical(p, keep) if p != 1.0 else None


def _top_p(fields: Fields, keep: int) -> TopP | None:
    p = float(fields.number("top_p", 0.95))
    return TopP(p, keep) if p != 1.0 else None


def _min_p(fields: Fields, keep: int) -> MinP | None:
    p = float(fields.number("min_p", 0.05))
    return MinP(p, keep) if p != 0.0 else None


def _xtc(fields: Fields, keep: int) -> Xtc | None:
    stage = Xtc(
        float(fields.number("xtc_probability", 0.0)),
        float(fields.number("xtc_threshold", 0.1)),
        keep,
    )
    return stage if stage.probability != 0.0 else None


_MAKERS: Final[dict[str, Maker]] = {
    "penalties": _penalties,
    "dry": _dry,
    "top_n_sigma": _top_n_sigma,
    "top_k": _top_k,
    "typ_p": _typical,
    "top_p": _top_p,
    "min_p": _min_p,
    "xtc": _xtc,
}


def _temperature(fields: Fields, most: float) -> Temperature | DynamicTemperature | None:
    t = float(fields.number("temperature", 0.8, -1e9, most))
    spread = float(fields.number("dynatemp_range", 0.0))
    exponent = float(fields.number("dynatemp_exponent", 1.0))
    if spread > 0:
        return DynamicTemperature(t, spread, exponent)
    return Temperature(max(t, 0.0)) if t != 1.0 else None


def _mirostat(fields: Fields) -> SelectStage | None:
    kind = fields.whole("mirostat", 0, 0, 2)
    tau = float(fields.number("mirostat_tau", 5.0))
    eta = float(fields.number("mirostat_eta", 0.1))
    return (None, Mirostat(tau, eta), MirostatV2(tau, eta))[kind]


def _adaptive(fields: Fields) -> AdaptiveP:
    target = float(fields.number("adaptive_target", -1.0))
    return AdaptiveP(target, float(fields.number("adaptive_decay", 0.9)))


# --- order, biases ----------------------------------------------------------------------------


def _order(fields: Fields) -> Sequence[str]:
    """`samplers`: names, or llama-server's letters in one text."""
    value = fields.any("samplers")
    if value is None:
        return ORDER
    if isinstance(value, str) and set(value) <= set(_LETTERS):
        names = [_LETTERS[letter] for letter in value]
    else:
        names = [_ALIASES.get(n, n) for n in fields.texts("samplers", most=MAX_SAMPLERS)]
    for name in names:
        if name not in (*ORDER, "adaptive_p"):
            known = ", ".join((*ORDER, "adaptive_p"))
            raise fields.refuse("samplers", f"Unknown sampler {shown(name)}. Known: {known}.")
    return list(dict.fromkeys(names))


def _biases(fields: Fields) -> LogitBias | None:
    """OpenAI's object (ID → number), or llama-server's list of [ID or text, number or false]."""
    value = fields.any("logit_bias")
    if value is None:
        return None
    pairs = list(value.items()) if isinstance(value, dict) else value
    if not isinstance(pairs, list):
        raise fields.refuse("logit_bias", "logit_bias must be an object or a list of pairs.")
    if len(pairs) > MAX_BIASES:
        sentence = f"Logit bias has {len(pairs):,} entries; the limit is {MAX_BIASES:,}."
        raise fields.refuse("logit_bias", sentence)
    biases = [_bias(fields, pair, is_object=isinstance(value, dict)) for pair in pairs]
    return LogitBias(biases) if biases else None


def _bias(fields: Fields, pair: object, *, is_object: bool) -> TokenBias:
    wrong = fields.refuse(
        "logit_bias", f"A logit bias names a token and a number, not {shown(pair)}."
    )
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise wrong
    token, bias = pair
    if is_object:
        if not (isinstance(token, str) and token.isascii() and token.isdigit() and len(token) < 10):
            raise wrong
        token = int(token)
    is_number = isinstance(bias, int | float) and not isinstance(bias, bool)
    if not (bias is False or is_number):
        raise wrong
    ban = bias is False
    number = 0.0 if ban else float(bias)
    if isinstance(token, bool) or not isinstance(token, int | str):
        raise wrong
    if isinstance(token, int):
        return TokenBias(token_id=token, bias=number, ban=ban)
    return TokenBias(text=token, bias=number, ban=ban)

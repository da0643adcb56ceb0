"""The names of all facts: what each says, its unit, what it is made from, and how it is shown.

Texts may use these and no others. The tour follows the token that is chosen in a reply (`token`);
it was the guess made at the token before it (`read`), at `place` of the text:

    text = ReadText: prompt and reply   place = place_of(index) − 1 = Seen.place
    trace = the TokenTrace of `token`   seen = Seen of that place; a = seen.arrays
    loaded = Loaded                     message = the reply, as stored

What must hold for all: where what it is made from isn't there (the token is the prompt's and has no
trace, an array is missing, a measurement wasn't made), the fact isn't there; nothing stands in for
it. Layers, heads and positions count from 0, as in the panels; ranks from 1. A token is shown as
`visible(piece)`, and texts quote it. A count is the number alone, but where the example shows its
noun. Those that need no question are made in `token.py`, `reply.py` and `file.py`.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Name(NamedTuple):
    """`unit` of the fact's value; "text": it is none. `source`: what the value is made from.
    `shown`: an example of its text."""

    meaning: str
    unit: str
    source: str
    shown: str


_CHOSEN: Final = "; layer and head are those chosen in Inside (InsideView.layer, .head)"

NAMES: Final[dict[str, Name]] = {
    # --- the token ------------------------------------------------------------------------------
    "token": Name(
        "the token that is followed",
        "text",
        "trace.piece, else text.piece(place + 1); not behind the end of the text",
        "·Paris",
    ),
    "id": Name("its ID", "ID", "trace.token_id, else text.target(place)", "7042"),
    "nth": Name("its number in the reply, from 1", "token", "index + 1", "1"),
    "read": Name("the token before it, which was read", "text", "text.piece(place)", "·is"),
    "position": Name("where `read` stands, from 0", "position", "place", "37"),
    "n_before": Name("tokens before `read`", "tokens", "place", "37 tokens"),
    "n_bytes": Name("length of `token`", "bytes", "len(trace.piece)", "6"),
    "token_bytes": Name(
        "the bytes of `token`",
        "text",
        "its piece in hexadecimal (`hexadecimal` of tokens_shown)",
        "20 50 61 72 69 73",
    ),
    "token_time": Name(
        "time from the token before to this one", "ms", "trace.ms; as time_text", "16.2 ms"
    ),
    # --- the prompt -----------------------------------------------------------------------------
    "n_prompt": Name("length of the prompt", "tokens", "counts.prompt_tokens", "39"),
    "n_template": Name(
        "of them, the chat template's",
        "tokens",
        "tokens in parts of origin scaffold (`counts`); not where there are none",
        "21",
    ),
    "n_message_tokens": Name(
        "length of the message that the reply answers",
        "tokens",
        "tokens in the last part of origin user, or text where there is no template; not of a "
        "prompt that has attachments behind it",
        "6 tokens",
    ),
    "n_message_words": Name(
        "its words", "words", "len(split()) of the decoded tokens of that part", "5 words"
    ),
    "n_vocab": Name("tokens in the vocabulary", "tokens", "loaded.n_vocab", "49,152"),
    # --- the vector and its place ---------------------------------------------------------------
    "n_embd": Name("numbers in a vector", "numbers", "loaded.n_embd = len(a[embedding])", "576"),
    "nearest": Name(
        "the token nearest to `read`",
        "text",
        "Embeddings.nearest of ((id of read, 1.0),), folded as the card Similar tokens folds it; "
        "the first that is neither is_input nor is_variant (`outcome`)",
        "·was",
    ),
    "n_pairs": Name(
        "pairs of numbers that RoPE turns in each head",
        "pairs",
        "Rotations: n_dims ÷ 2 of the rotation that has the lowest layer; not where there are none",
        "32",
    ),
    "position_otherwise": Name(
        "how a file without RoPE tells the order of words",
        "text",
        "Position.sentence of the header, else Rotations.sentence; only where Rotations has none",
        "Attention falls off with distance, by a slope for each head (ALiBi); queries and keys "
        "aren't rotated.",
    ),
    # --- attention ------------------------------------------------------------------------------
    "n_head": Name("query heads in a layer", "heads", "a[attention].shape[1]", "9"),
    "n_kv_head": Name(
        "sets of keys and values that they share",
        "heads",
        "a[k_after].shape[1]; only where it is less than n_head",
        "3 sets",
    ),
    "n_heads": Name(
        "heads in all layers",
        "heads",
        "n_head × the layers of a[attention] that are not NaN",
        "270",
    ),
    "sink_share": Name(
        "attention of `read` to the first token, mean over all heads",
        "share",
        "nanmean of a[attention][:, :, 0]; not at place 0",
        "64%",
    ),
    "no_attention": Name(
        "why there is no attention to see",
        "text",
        "seen.missing[attention], where a has no attention",
        "This model has no attention, so there is nothing to show.",
    ),
    "looked_at": Name(
        "what `read` looks at most, the first token aside",
        "text",
        "the place of the maximum of nanmean(a[attention], (0, 1))[1:]; not where that is 0",
        "·France",
    ),
    "look_head": Name(
        "the head that looks hardest, the first token aside",
        "text",
        "argmax of a[attention][:, :, 1:] over all layers (as `hardest_look`); cut_words of it",
        "head 4 of layer 11",
    ),
    "look_token": Name("the token it looks at", "text", "that argmax", "·capital"),
    "look_share": Name("what it gives to it", "share", "that maximum; not where it is 0", "97%"),
    "n_window_layers": Name(
        "layers that look through a window",
        "layers",
        "loaded.cache.n_window_layers, where it is > 0 and place + 1 > window",
        "15",
    ),
    "window": Name(
        "how many tokens these see", "tokens", "loaded.cache.window, in the same case", "512"
    ),
    "chosen_head": Name(
        "the head that is chosen",
        "text",
        "cut_words, first letter capital" + _CHOSEN,
        "Head 1 of layer 3",
    ),
    "chosen_token": Name(
        "what it looks at most", "text", "argmax of a[attention][layer, head]" + _CHOSEN, "·of"
    ),
    "chosen_share": Name("what it gives to it", "share", "that maximum" + _CHOSEN, "41%"),
    # --- layers ---------------------------------------------------------------------------------
    "n_layer": Name("layers", "layers", "loaded.n_layer", "30"),
    "chosen_layer": Name(
        "the layer that is chosen", "layer", "InsideView.layer, where it is < n_layer", "12"
    ),
    "layer_best": Name(
        "what would win after it", "text", "a[lens_ids][layer, 0], as a word of Pieces", "·the"
    ),
    "layer_rank": Name("rank of `token` after it", "rank", "lens_of(a).ranks[layer]", "1,204"),
    "lead_layer": Name(
        "from which layer on `token` is the best of each layer",
        "layer",
        "lens_of(a).leads_from",
        "24",
    ),
    "end_rank": Name(
        "rank of `token` after the last layer",
        "rank",
        "lens_of(a).ranks[−1], where leads_from is None",
        "2",
    ),
    "first_lead": Name(
        "the first layer after which it leads, where it doesn't at the end",
        "number",
        "the least l with rank 1 in a[lens_ids]; only beside end_rank",
        "12",
    ),
    "other": Name(
        "what `token` is compared with",
        "text",
        "Insides.attribute(text, place, None): Written.other as a word; the runner-up",
        "·the",
    ),
    "top_head": Name(
        "the head that wrote most for `token` against `other`",
        "text",
        "cut_words of the first of Written.contributions[:MOST_ROWS] whose cut is a head and whose "
        "value is > 0",
        "head 3 of layer 24",
    ),
    "top_head_logits": Name("how much it wrote", "logits", "that value, with its sign", "+1.32"),
    # --- scores and the draw --------------------------------------------------------------------
    "logit": Name(
        "raw score of `token`",
        "logits",
        "trace.logprob + trace.log_total, else a[logits][id]",
        "+17.3",
    ),
    "probability": Name(
        "its probability before samplers, at temperature 1",
        "ln p, shown as p",
        "trace.logprob, else votes(a[logits], also=id).of(id).logprob",
        "78.0%",
    ),
    "rank": Name("its rank before samplers", "rank", "trace.rank, else rank of that vote", "1"),
    "best": Name("the token with the highest score", "text", "votes(a[logits]).rows[0]", "·Paris"),
    "second": Name("the next one", "text", "votes(a[logits]).rows[1]", "·the"),
    "lead": Name("how far it is ahead", "logits", "rows[0].logit − rows[1].logit", "2.10"),
    "odds": Name("how many times as likely", "times", "e^lead", "8.2"),
    "temperature": Name(
        "temperature of this reply",
        "temperature",
        "t of the Temperature among stages_of_reply(message.settings), where there is just one",
        "0.80",
    ),
    "top_k": Name("top-k of this reply", "tokens", "the same: k of TopK, where k > 0", "40"),
    "top_p": Name("top-p of this reply", "share", "the same: p of TopP, where p < 1", "95%"),
    "n_left": Name(
        "candidates at the draw",
        "tokens",
        "trace.stages[−1].left, where stages were recorded",
        "5",
    ),
    "uniform": Name("the random number of the draw", "number in [0, 1)", "trace.uniform", "0.2303"),
    "choice": Name(
        "how it was chosen",
        "number in [0, 1), or text",
        "trace.uniform; “chosen by you” where trace.chosen, or “found by beam search”, else "
        "“the most probable”",
        "0.23",
    ),
    "draft": Name(
        "whether a draft had told it right, in a reply with drafts",
        "text",
        "“right” where trace.drafted, “wrong” where trace.rejected, else “none”",
        "right",
    ),
    "draw_share": Name(
        "share of `token` at the draw",
        "share",
        "trace.stages[−1].probability, where trace.uniform is not None",
        "81.4%",
    ),
    "seed": Name(
        "seed of the reply", "seed", "message.seed, where trace.uniform is not None", "2841769287"
    ),
    # --- the loop -------------------------------------------------------------------------------
    "n_reply": Name("length of the reply", "tokens", "counts.generated", "12"),
    "n_reused": Name(
        "prompt tokens that were in the cache", "tokens", "counts.reused, where > 0", "19 tokens"
    ),
    "prefill_speed": Name(
        "how fast the prompt was read",
        "tokens/s",
        "Part prefill of timeline.parts(from_stored(message.settings[timeline])).tokens_per_s, "
        "from 8 tokens on",
        "431 tokens/s",
    ),
    "decode_speed": Name(
        "how fast the reply was written",
        "tokens/s",
        "Part decode of the same, from 4 tokens on",
        "62.0 tokens/s",
    ),
    "read_speedup": Name("reading against writing", "times", "prefill_speed ÷ decode_speed", "7.0"),
    "ending": Name(
        "why the reply ended",
        "text",
        "message.stop_reason: end_token, turn_end “the model wrote its end token”; max_tokens “it "
        "reached the token limit”; stop_string “a stop string appeared”; context_full “the context "
        "window was full”; stopped “you stopped it”; deadline “its time was up”; no other",
        "the model wrote its end token",
    ),
    "reply_time": Name("time for the whole reply", "s", "counts.total_s; as time_text", "4.20 s"),
    "kv_per_token": Name(
        "KV cache of a token",
        "bytes",
        "loaded.kv_bytes_per_token, where > 0; bytes_words",
        "23 kB",
    ),
    "n_cells": Name(
        "tokens that prompt and reply keep in the KV cache", "tokens", "counts.context_used", "51"
    ),
    "kv_used": Name(
        "what these take",
        "bytes",
        "kv_per_token × n_cells; bytes_words",
        "1.17 MB",
    ),
    "kv_full": Name(
        "KV cache of a full context window",
        "bytes",
        "sum of loaded.memory whose `what` is kv (measured); bytes_words",
        "189 MB",
    ),
    "step_with": Name(
        "one step with the cache", "ms", "StepMeasured.step, once measured; as time_text", "18.0 ms"
    ),
    "step_without": Name("the same without it", "ms", "StepMeasured.replay", "690 ms"),
    "cache_gain": Name("how many times as long", "times", "replay ÷ step", "38"),
    # --- other ways -----------------------------------------------------------------------------
    "n_slots": Name(
        "replies that can be written at once", "replies", "loaded.n_slots, where > 1", "4 replies"
    ),
    "flash": Name("flash attention", "text", "on or off: loaded.flash_attention", "on"),
    "flash_on_time": Name(
        "one step with flash attention",
        "ms",
        "median of FlashCompared.on.step_ms, once compared; as ms_words",
        "16.1 ms",
    ),
    "flash_off_time": Name(
        "one step without it", "ms", "median of FlashCompared.off.step_ms", "17.9 ms"
    ),
    "flash_difference": Name(
        "largest difference of both sides' scores",
        "logits",
        "FlashCompared.largest_difference, two figures",
        "0.012",
    ),
    # --- what it costs --------------------------------------------------------------------------
    "n_params": Name("parameters", "parameters", "loaded.n_params; as count_words", "135M"),
    "ffn_share": Name(
        "share of the parameters that are in FFNs",
        "share",
        "Machine: Σ n_params of blocks of kind ffn ÷ Machine.n_params; not with parts missing",
        "59%",
    ),
    "bits_per_weight": Name(
        "bits for each parameter, on average",
        "bits",
        "Machine.bits_per_weight",
        "5.10 bits",
    ),
    "quantisation": Name(
        "how the file stores them",
        "text",
        "facts_of(header).quantisation, where not empty",
        "Q4_K_M",
    ),
    "file_size": Name("size of the file", "bytes", "loaded.size_bytes; bytes_words", "98.3 MB"),
    "size_at_16": Name(
        "all parameters at 16 bits", "bytes", "n_params × 16 ÷ 8; bytes_words", "269 MB at 16 bits"
    ),
    "size_at_8": Name("at 8 bits", "bytes", "n_params × 8 ÷ 8", "135 MB at 8 bits"),
    "size_at_4": Name("at 4 bits", "bytes", "n_params × 4 ÷ 8", "67.3 MB at 4 bits"),
    "memory_total": Name(
        "memory of this computer", "bytes", "host_memory()[1]; bytes_words", "16.8 GB"
    ),
    "hash_loaded": Name(
        "fingerprint of the file as it was loaded",
        "text",
        "loaded.fast_hash, of which 8 digits are shown",
        "3fa9c210",
    ),
    "hash_now": Name(
        "the same, behind the reply",
        "text",
        "fast_hash(read_header(loaded.path)) taken anew, on a thread, once the reply has ended",
        "3fa9c210",
    ),
}

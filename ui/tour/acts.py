"""What a step asks to be tried, by the names that texts use, and what tells that it was done.

A switch that is on already counts as done. What the program does by itself (a reply that grows, a
token that follows from another message) is nobody's act.
"""

from __future__ import annotations

from typing import Final

ACTS: Final[dict[str, str]] = {
    "token_chosen": "Looking.token_changed, to another token of the same reply or its prompt",
    "prompt_token_chosen": "PromptText.chosen of prompt_text, not −1",
    "merges_replayed": "QSlider.valueChanged of merge_slider",
    "sum_asked": "inside_nearest_example clicked, or a text in inside_nearest_b or _c",
    "words_swapped": "inside_swap_button clicked, and inside_swap_rows then has rows",
    "sink_hidden": "Switch.toggled of inside_attention_sink, on",
    "head_chosen": "InsideView.head_changed, to a head",
    "layer_chosen": "InsideView.layer_changed, to a layer",
    "part_tested": "inside_wrote_test clicked, and inside_wrote_result then says something",
    "temperature_moved": "Slider.valueChanged of live_slider_temperature in live_card",
    "token_held": "TokenHeld, of the chat that is open",
    "cache_measured": "measure_button clicked, and StepCard.ended with a row of figures",
    "what_if_asked": "WhatIfCard.answered",
    "several_begun": "AnswersBegan, of the chat that is open",
    "flash_compared": "inside_machine_flash clicked, and inside_machine_flash_table then shown",
    "block_opened": "MachineDrawing.opened of inside_machine_drawing",
    "reply_rerun": "MessageAdded: another version of the reply that is looked at, with its seed",
    "token_view_on": "SettingsChanged with token_view, which is then on",
}
"""What is heard."""

"""All that the window and the engine's process say to each other, and the frames that it goes in.

Only plain values, no llama_cpp, Qt or numpy: both sides, `ask` and the tests import this folder,
and it imports neither side. A name is imported from the file that declares it.

* What travels, and what holds for all of it: `messages`. By subject: `loading_messages`, `stages`,
  `prompt_messages`, `adapter_messages`, `cache_messages`, `replay_messages`, `timeline_messages`,
  `lane_messages`, `inside_messages`, `embedding_messages`, `beam_messages`, `thinking_messages`,
  `tool_messages`, `media_messages`, `remote_messages`, and `template_messages` for the template's
  own process.
* What it is made of, and how it goes over a pipe: `frames`, `wire`; a vocabulary's table: `pieces`.
* What it may hold, as sentences: `bounds`, `stage_rules`, `request_rules`, `without_effect`.
"""

"""What SillyTavern, character cards, text-generation-webui and KoboldCpp write, as values."""

from __future__ import annotations

import base64

PNG = b"\x89PNG\r\n\x1a\n"
PIXEL = "data:image/png;base64," + base64.b64encode(PNG + bytes(20)).decode()

HEADER = {
    "user_name": "Ada",
    "character_name": "Seraphina",
    "create_date": "2023-11-4@21h30m20s",
    "chat_metadata": {"integrity": "5b1f", "note_prompt": "Be brief."},
}
GREETING = {
    "name": "Seraphina",
    "is_user": False,
    "send_date": "November 4, 2023 9:30pm",
    "mes": "Welcome, edited.",
    "swipe_id": 0,
    "swipes": ["Welcome.", "Hail."],
    "swipe_info": [{"send_date": "x"}, {"send_date": 1700000000000, "extra": {"model": "m-1"}}],
    "extra": {},
}
QUESTION = {"name": "Ada", "is_user": True, "mes": "Hi", "send_date": "2023-11-04T22:00:00Z"}
ANSWER = {
    "name": "Seraphina",
    "is_user": False,
    "mes": "<think>Hm.</think>\n\nHello",
    "send_date": "2023-11-4 @22h 01m 02s 3ms",
    "swipe_id": "1",
    "swipes": ["Nothing", "<think>Hm.</think>\n\nHello"],
    "extra": {"reasoning": "Think.", "reasoning_duration": 1500, "model": "m-2", "image": PIXEL},
}
HIDDEN = {"name": "Seraphina", "is_user": False, "is_system": True, "mes": "Aside"}
NARRATED = {"name": "Note", "is_system": False, "mes": "Night.", "extra": {"type": "narrator"}}

CARD = {
    "spec": "chara_card_v2",
    "data": {
        "name": "Seraphina",
        "description": "{{char}} guards the glade of <USER>.",
        "personality": "kind{{// secretly tired}}",
        "scenario": "",
        "first_mes": "Welcome, {{user}}.",
        "alternate_greetings": ["Hail.", 7, "Hail."],
        "mes_example": "<START>\n{{Char}}: Rest.",
        "system_prompt": "{{original}}Stay in role.",
        "character_book": {"entries": [{}, {}]},
        "tags": ["Fantasy", None],
    },
}

WEBUI_LOG = {
    "internal": [
        ["<|BEGIN-VISIBLE-CHAT|>", "How can I help?"],
        ["1 < 2?", "<think>Sure.</think>Yes."],
        ["only one"],
        ["Look", "A dot."],
    ],
    "visible": [["", "How can I help?"], ["1 &lt; 2?", "Yes."], [], ["Look", "A dot."]],
    "metadata": {
        "user_1": {"timestamp": "Jan 05, 2025 14:03"},
        "assistant_1": {
            "timestamp": "Jan 05, 2025 14:04",
            "model_name": "m.gguf",
            "versions": [{"content": "No."}, {"content": "<think>Sure.</think>Yes."}],
            "current_version_index": 1,
        },
        "user_3": {"attachments": [{"name": "dot.png", "image_data": PIXEL}, {"name": "n.txt",
                   "content": "a note"}, {"name": "gone.pdf"}]},
    },
}  # fmt: skip
CHARACTER = {
    "name": "Chiharu",
    "greeting": "*strides in* Hey, {{user}}!",
    "context": "{{char}}'s persona: an engineer.\n{{user}}: Hi",
    "example_dialogue": "{{char}}: 1 < 2.",
}
SESSION = {
    "gamestarted": True,
    "prompt": "Intro",
    "memory": "M.",
    "actions": ["\n{{[INPUT]}}\nHi", "\n{{[OUTPUT]}}\n<think>Hm.</think>Hello[<|p|a1|p|>]"],
    "savedsettings": {"opmode": 4, "title": "T", "instruct_starttag": "### Instruction:"},
    "worldinfo": [{}],
}
CHATTING = {
    "gamestarted": True,
    "prompt": "",
    "memory": "M.",
    "actions": ["\nAda: Hi\nthere: you\nBob: Yo\nEve (2): Hm."],
    "savedsettings": {"opmode": 3, "chatname": "Ada", "chatopponent": "Bob||$||Eve (2)"},
}

"""A program of its own: loads files with many combinations of cache types and answers with each.

    python cache_type_trials.py < combinations.json

It prints one JSON line per combination, at once, so that whoever runs it sees at which one it
died. It comes to answered (flash attention used, stop reason, tokens) or refused (sentence).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from native_session import NativeSession, load_quietly

from app.engine.process.native import native
from app.engine.process.native.native import NativeLog
from app.refusal import Refusal


def main() -> int:
    log = NativeLog()
    native.start(log)
    for path, key, value, flash, tokens in json.load(sys.stdin):
        try:
            opened = load_quietly(
                Path(path),
                log,
                n_ctx=256,
                n_ubatch=64,
                n_threads=1,
                n_slots=2,
                type_k=key,
                type_v=value,
                flash_attention=flash,
            )
        except Refusal as refused:
            outcome = ["refused", refused.sentence]
        else:
            prompt = [3 + number % 200 for number in range(20)]
            reply = NativeSession(opened, log).reply(
                prompt, max_tokens=tokens, stop=[], alternatives=0
            )
            flash_used = opened.loaded.flash_attention
            outcome = ["answered", flash_used, reply.stop_reason, reply.generated]
            opened.close()
        print(json.dumps([key, value, flash, *outcome]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Servers elsewhere behind the engine's protocol: whoever asks does not know which one answers.

`routing.Engines` holds the local engine and `engine.RemoteEngine`, and sends each request to where
the loaded weights are. `trying` finds out what answers at an address, `kinds` knows what each kind
of server takes and under which names, `asking` makes its requests, `controls` what may not act in
them, `answer` reads its replies, `questions` everything else.

What must hold: a number that a server does not say is unknown, never 0 and never another source's;
what it does not take is not sent and is named; whatever it sends, each request ends exactly once,
and what had arrived is kept. Connections are made in `app/hub/engines/` alone.
"""

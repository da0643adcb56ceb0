"""Questions beside replies: each is answered once, to whoever asked, in words where it failed."""

from __future__ import annotations

from typing import Any, ClassVar

from app.chat.inspection.questions import NO_WEIGHTS, UNREADABLE
from app.chat.surroundings import ALWAYS
from app.engine.protocol.messages import Done, Failed, Finished, Stopped, Tokens

SCRIPT: dict[str, Any] = {"replies": [{"text": "blue sky"}]}


def test_a_text_is_tokenised_by_the_loaded_vocabulary(make_room):
    room = make_room(SCRIPT).start_ready()
    answers: list[Tokens] = []
    room.desk.questions.tokenize(
        "blue sky", answers.append, lambda sentence: answers.append(sentence), still=ALWAYS
    )
    room.until(lambda: answers, "the tokens")
    (tokens,) = answers
    assert b"".join(tokens.pieces) == b"blue sky"
    assert len(tokens.token_ids) == len(tokens.pieces)


def test_without_weights_it_is_said_at_once(make_room):
    room = make_room({**SCRIPT, "load": {"fail": ["not_a_gguf", "No."]}})
    room.start()
    said: list[str] = []
    room.desk.questions.tokenize(
        "x", lambda _tokens: said.append("answered"), said.append, still=ALWAYS
    )
    assert said == [NO_WEIGHTS]


def test_each_question_is_answered_once_and_a_failure_is_a_sentence(make_room):
    room = make_room(SCRIPT).start_ready()
    questions = room.desk.questions
    sent: list[Any] = []
    answered: list[Any] = []

    class Engine:
        stopped: ClassVar[list[int]] = []

        def request(self, command: Any) -> int:
            sent.append(command)
            return 900 + len(sent)

        def stop(self, request_id: int) -> None:
            self.stopped.append(request_id)

    loader = type("L", (), {"loaded": object(), "is_loading": False, "engine": Engine()})()
    questions._loader = loader

    def ask() -> int | None:
        failed = lambda sentence: answered.append(f"failed: {sentence}")  # noqa: E731
        return questions.ask("a question", Done, answered.append, failed, still=ALWAYS)

    ids = [ask() for _ in range(5)]
    assert ids == [901, 902, 903, 904, 905]
    questions.take_ending(Finished(901, Done()))
    questions.take_ending(Failed(902, "busy", "Wait a little."))
    questions.take_ending(Stopped(903, Done()))
    questions.stop(904)
    questions.take_ending(Finished(905, Tokens([], [])))
    assert not any(questions.is_asked(request_id) for request_id in ids)
    assert Engine.stopped == [904]
    assert answered[0] == Done()
    assert answered[1] == "failed: Wait a little."
    assert str(answered[2]).startswith("failed: The engine stopped")
    assert answered[3] == f"failed: {UNREADABLE}", "an answer to another question is none"
    loader.is_loading = True
    assert ask() is None
    assert answered[4] == f"failed: {NO_WEIGHTS}"
    assert len(sent) == 5


def test_nothing_is_asked_of_weights_that_are_about_to_go(make_room):
    """The engine would answer with what the next ones say, and it would be taken for theirs."""
    room = make_room(SCRIPT).start_ready()
    path = room.desk.loader.state.loaded.path
    answers: list[Any] = []
    room.desk.loader.load(path)
    assert room.desk.loader.state.loaded is not None, "until the engine says that they go"
    room.desk.questions.tokenize("blue sky", answers.append, answers.append, still=ALWAYS)
    room.desk.words.read()
    room.desk.cache.read(answers.append, answers.append, still=ALWAYS)
    assert answers == [NO_WEIGHTS, NO_WEIGHTS]
    assert not room.desk.words._asked_for
    room.until(lambda: not room.desk.loader.is_loading, "Reload the model")
    room.desk.questions.tokenize("blue sky", answers.append, answers.append, still=ALWAYS)
    room.until(lambda: len(answers) == 3, "the tokens")
    assert isinstance(answers[2], Tokens)

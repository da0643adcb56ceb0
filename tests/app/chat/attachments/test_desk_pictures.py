"""Pictures through the desk: made ready, stored with the draft, counted, sent, kept."""

from __future__ import annotations

import wave
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from each import each
from made_pictures import (
    SVG,
    a_picture,
    an_animation,
    load_with_projector,
    png_claiming,
    prepare_here,
    two_halves,
)
from PIL import Image
from whole_chats import NOON, a_chat

from app.chat import events
from app.chat.attachments import media_files
from app.chat.attachments.kinds import AUDIO, PICTURE
from app.engine.protocol.prompt_messages import ChatPrompt
from models.records import Attachment, Role

SEEING = {"replies": [{"text": "A red half and a blue half."}], "projector": {"tokens": 9}}


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_here(monkeypatch)


@pytest.fixture
def room(make_room: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    load_with_projector(monkeypatch)
    return make_room(SEEING).start_ready()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The prompts that the engine is asked to answer."""

    def watch(room: Any) -> list[ChatPrompt]:
        prompts: list[ChatPrompt] = []
        generate = room.desk._engine.generate

        def spy(request: Any) -> int:
            prompts.append(request.prompt)
            return generate(request)

        monkeypatch.setattr(room.desk._engine, "generate", spy)
        return prompts

    return watch


def drop(room: Any, path: Path, data: bytes) -> Any:
    """Drop a file and wait until it is attached."""
    path.write_bytes(data)
    before = len(room.desk.attachments.of_open)
    assert room.desk.attachments.add_files([str(path)])
    room.until(lambda: len(room.desk.attachments.of_open) > before, "the attachment")
    return room.desk.attachments.of_open[-1]


def said(room: Any) -> str:
    return str(room.of(events.Noticed)[-1].sentence)


def test_a_picture_is_scaled_stored_counted_and_sent_with_its_place(
    room: Any, asked: Any, tmp_path: Path
) -> None:
    prompts = asked(room)
    room.desk.settings.set("picture_side", 300)
    picture = drop(room, tmp_path / "halves.jpg", a_picture(600, 400, "JPEG"))
    assert (picture.kind, picture.text) == (PICTURE, "")
    assert picture.details == {
        "width": 300, "height": 200, "media_type": "image/jpeg", "shown": {"given": [600, 400]},
    }  # fmt: skip
    assert room.until(lambda: room.desk.attachments.of_open[0].tokens) == 9
    assert room.desk.attachments.add_paste("notes " * 99)
    room.until(lambda: len(room.desk.attachments.of_open) == 2)
    media_type, data = room.store.load_file(picture.id).result(20)
    assert media_type == "image/jpeg"
    assert Image.open(BytesIO(data)).size == (300, 200)

    reply = room.ask("What is this?")
    (prompt,) = prompts
    message = prompt.messages[-1]
    (media,) = message.media
    assert (media.id, media.kind, media.data, media.at) == (picture.id, "image", data, 0)
    assert message.content.startswith("Attached file “Pasted text”")
    ((start, end),) = message.attachments
    assert message.content[end:] == "\n\nWhat is this?"
    assert start == 0
    question = room.stored()[0]
    assert [each.kind for each in question.attachments] == [PICTURE, "text"]
    assert room.desk.attachments.of_open == ()
    told = [each.is_media for each in room.of(events.PrefillProgressed)]
    assert told[:2] == [True, True]
    assert not told[-1]

    # Another reply has it again, and so does another version of the question.
    room.desk.replies.answer(reply.id)
    room.until(lambda: len(prompts) == 2 and room.ended_reply())
    assert [m.data for m in prompts[1].messages[-1].media] == [data]
    assert room.desk.tree.edit_and_send(question.id, "And this?")
    room.until(lambda: len(prompts) == 3 and room.ended_reply())
    (again,) = prompts[2].messages[-1].media
    assert again.data == data
    edited = room.stored()[0]
    assert edited.content == "And this?"
    assert room.store.load_file(edited.attachments[0].id).result(20) == (media_type, data)


def test_a_chat_that_is_opened_again_has_its_pictures_in_the_prompt(
    room: Any, asked: Any, tmp_path: Path, make_room: Any
) -> None:
    drop(room, tmp_path / "halves.png", a_picture())
    room.ask("What is this?")
    drawn: list[Any] = []
    room.close()
    again = make_room(SEEING).start_ready()
    again.until(lambda: len(again.desk.shelf.path) == 2, "the last chat")
    prompts = asked(again)
    again.ask("And the right half?")
    first = prompts[0].messages[-3]
    assert [len(m.data) > 50 for m in first.media] == [True]
    (picture,) = again.desk.shelf.path[0].attachments
    again.desk.shelf.files.draw(picture.id, 30, 30, drawn.append, still=lambda: True)
    again.until(lambda: drawn)
    assert (drawn[0].width, drawn[0].height) == (30, 20)


def test_a_draft_keeps_its_picture_over_a_restart_and_a_removal_can_be_undone(
    room: Any, make_room: Any, asked: Any, tmp_path: Path
) -> None:
    picture = drop(room, tmp_path / "halves.png", a_picture())
    data = room.store.load_file(picture.id).result(20)
    room.desk.attachments.remove(picture.id)
    assert room.store.load_file(picture.id).result(20) is None
    room.desk.shelf.undo(room.of(events.Noticed)[-1].undo)
    room.until(lambda: room.desk.attachments.of_open)
    assert room.store.load_file(picture.id).result(20) == data
    room.desk.shelf.note_draft("Look")
    room.close()
    again = make_room(SEEING).start_ready()
    again.until(lambda: again.desk.attachments.of_open, "the draft's picture")
    prompts = asked(again)
    again.ask("Look")
    assert [m.data for m in prompts[0].messages[-1].media] == [data[1]]


def test_pixels_of_the_clipboard_and_a_picture_in_a_temporary_chat(
    room: Any, asked: Any, data_dir: Path
) -> None:
    prompts = asked(room)
    room.desk.temporary.open()
    assert room.desk.attachments.add_picture(two_halves(60, 40, "RGBA").tobytes(), (60, 40))
    room.until(lambda: room.desk.attachments.of_open)
    assert room.desk.attachments.add_picture(a_picture(kind="WEBP"))
    room.until(lambda: len(room.desk.attachments.of_open) == 2)
    names = [each.name for each in room.desk.attachments.of_open]
    assert names == ["Pasted picture", "Pasted picture 2"]
    room.ask("")
    media = prompts[0].messages[-1].media
    assert [m.at for m in media] == [0, 0]
    question = room.desk.shelf.path[0]
    assert room.desk.tree.edit_and_send(question.id, "And now?")
    room.until(lambda: len(prompts) == 2 and room.ended_reply())
    assert [m.data for m in prompts[1].messages[-1].media] == [m.data for m in media]
    room.desk.temporary.end()
    assert not room.desk.media.is_held(question.attachments)
    held = [m.data[-200:] for m in media]
    on_disk = [path.read_bytes() for path in data_dir.rglob("*") if path.is_file()]
    assert not any(part in data for part in held for data in on_disk)


@each(
    ("name", "data", "words"),
    [
        ("empty.png", b"", "is empty"),
        ("not.png", b"\x00\x01\x02" * 99, "can't be attached"),
        ("cut.png", a_picture()[:70], "damaged or incomplete"),
        ("huge.png", png_claiming(60_000, 60_000), "60,000 × 60,000 pixels"),
        ("photo.heic", b"\0\0\0\x18ftypheic" + b"\0" * 99, "HEIC"),
        ("song.ogg", b"OggS" + b"\0" * 99, "save it as WAV, MP3 or FLAC"),
    ],
)
def test_what_cannot_be_a_picture_is_refused_and_the_draft_stays(
    room: Any, tmp_path: Path, name: str, data: bytes, words: str
) -> None:
    (tmp_path / name).write_bytes(data)
    told = len(room.of(events.Noticed))
    assert room.desk.attachments.add_files([str(tmp_path / name)])
    room.until(lambda: len(room.of(events.Noticed)) > told, "why not")
    assert words in said(room)
    assert room.desk.attachments.of_open == ()


def test_an_svg_is_attached_as_what_it_is_written_as_and_an_animation_as_its_first_frame(
    room: Any, tmp_path: Path
) -> None:
    drawing = drop(room, tmp_path / "drawing.svg", SVG)
    assert (drawing.kind, drawing.text) == ("text", SVG.decode())
    room.until(lambda: "SVG drawing" in said(room), "the note")
    animated = drop(room, tmp_path / "wheel.gif", an_animation())
    assert animated.details["shown"]["notes"] == ["first frame"]
    room.until(lambda: "only the first frame" in said(room))


def test_without_a_projector_it_is_said_before_sending_and_nothing_is_sent(
    make_room: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_with_projector(monkeypatch, "")
    room = make_room(SEEING).start_ready()
    picture = drop(room, tmp_path / "halves.png", a_picture())
    room.until(lambda: room.of(events.AttachmentsChanged)[-1].unseen)
    assert "no projector" in room.of(events.AttachmentsChanged)[-1].unseen
    assert not room.desk.replies.send("What is this?")
    assert "can't see pictures" in said(room)
    assert [each.id for each in room.desk.attachments.of_open] == [picture.id]
    assert room.desk.attachments.of_open[0].tokens is None
    # Of a chat whose pictures another model saw, the names are told.
    room.desk.attachments.remove(picture.id)
    room.until(lambda: not room.of(events.AttachmentsChanged)[-1].unseen)


def test_weights_that_cannot_see_are_told_the_names_of_what_was_sent_before(
    room: Any, asked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop(room, tmp_path / "halves.png", a_picture())
    room.ask("What is this?")
    load_with_projector(monkeypatch, "")
    prompts = asked(room)
    room.desk.loader.load(str(room._script))
    room.until(lambda: room.desk.loader.loaded and room.desk.loader.loaded.projector is None)
    room.until(lambda: "is only told their names" in room.of(events.AttachmentsChanged)[-1].unseen)
    room.ask("And now?")
    first = prompts[0].messages[-3]
    assert first.media == []
    assert first.content.startswith("Attached picture “halves.png”, which you can't see.")


def test_of_many_pictures_the_newest_are_sent(
    room: Any, asked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = asked(room)
    data = [a_picture(60 + n, 40) for n in range(3)]
    for number, one in enumerate(data[:2]):
        drop(room, tmp_path / f"{number}.png", one)
        room.ask("Look")
    size = room.desk.shelf.path[0].attachments[0].size_bytes
    monkeypatch.setattr(media_files, "MAX_SENT_BYTES", 2 * size + size // 2)
    drop(room, tmp_path / "2.png", data[2])
    room.ask("Look")
    asked_last = [m for m in prompts[-1].messages if m.role == "user"]
    assert [len(m.media) for m in asked_last] == [0, 1, 1]


def test_a_sound_has_its_length_and_needs_a_projector_that_hears(room: Any, tmp_path: Path) -> None:
    file = BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(b"\0\1" * 12_000)
    sound = drop(room, tmp_path / "bell.wav", file.getvalue())
    assert (sound.kind, sound.details["seconds"]) == (AUDIO, 1.5)
    room.until(lambda: "can't hear audio" in room.of(events.AttachmentsChanged)[-1].unseen)
    assert not room.desk.replies.send("What is this?")
    assert room.store.load_file(sound.id).result(20) == ("audio/wav", file.getvalue())


def test_one_that_is_sent_before_it_was_counted_is_counted_all_the_same(
    room: Any, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(a_picture())
    room.desk.attachments.add_files([str(tmp_path / "a.png")])
    room.until(lambda: room.desk.attachments.of_open)
    assert room.desk.attachments.of_open[0].tokens is None
    room.desk.replies.send("What is this?")
    room.until(lambda: room.desk.shelf.path[0].attachments[0].tokens == 9, "its tokens")
    room.until(lambda: room.stored()[0].attachments[0].tokens == 9)


def test_what_waits_behind_a_reply_has_its_picture(room: Any, asked: Any, tmp_path: Path) -> None:
    prompts = asked(room)
    room.desk.replies.send("First")
    drop(room, tmp_path / "halves.png", a_picture())
    assert room.desk.queue.add("And this?")
    room.until(lambda: len(prompts) == 2 and room.ended_reply())
    assert len(prompts[1].messages[-1].media) == 1
    asked_for = [m for m in room.stored() if m.role is Role.USER]
    assert [len(m.attachments) for m in asked_for] == [0, 1]


def test_what_waits_is_held_where_other_weights_came_that_cannot_see(
    room: Any, asked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts, desk = asked(room), room.desk
    desk.replies.send("First")
    drop(room, tmp_path / "halves.png", a_picture())
    assert desk.queue.add("And this?")
    seeing = desk.loader.state
    blind = msgspec.structs.replace(seeing.loaded, projector=None)
    monkeypatch.setattr(desk.loader, "state", replace(seeing, loaded=blind))
    room.until(lambda: room.ended_reply())
    assert (len(prompts), [each.text for each in desk.queue.of_open]) == (1, ["And this?"])
    assert "no projector is loaded" in said(room)
    monkeypatch.setattr(desk.loader, "state", seeing)
    desk.queue.send_next()
    room.until(lambda: len(prompts) == 2)
    assert len(prompts[1].messages[-1].media) == 1


def brought(room: Any, name: str, data: bytes, media_type: str, n_pictures: int = 1) -> str:
    """A chat of another program, with pictures in its question; its id."""
    chat = a_chat(name, 1)
    question = chat.messages[0]
    pictures = tuple(
        Attachment(
            f"{name} picture {number}", name, "ant", "", len(data), NOON, question.id,
            position=number, kind=PICTURE, details={},
        )
        for number in range(n_pictures)
    )  # fmt: skip
    messages = (replace(question, attachments=pictures), *chat.messages[1:])
    files = {each.id: (media_type, data) for each in pictures}
    room.store.add_all([replace(chat, messages=messages, files=files)])
    return name


def test_a_picture_of_another_program_is_made_ready_before_it_is_sent(
    room: Any, asked: Any
) -> None:
    prompts = asked(room)
    room.desk.settings.set("picture_side", 300)
    for name, data, sizes in (
        ("webp", a_picture(kind="WEBP"), [(60, 40)]),
        ("large", a_picture(600, 400), [(300, 200)]),
        ("broken", b"\x89PNG" + b"\0" * 99, []),
    ):
        room.desk.shelf.open_stored(brought(room, name, data, "image/x"))
        room.until(lambda: len(room.desk.shelf.path) == 2, "the chat")
        room.ask("What is this?")
        found = [Image.open(BytesIO(m.data)) for m in prompts[-1].messages[-3].media]
        assert [image.size for image in found] == sizes
        assert {image.format for image in found} <= {"PNG", "JPEG"}


def test_pictures_that_come_late_are_counted_in_their_chat_alone(
    room: Any, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    late: list[Any] = []
    hold = room.desk.media.hold

    def keep(*args: Any, **options: Any) -> None:
        late.append((args, options))

    brought(room, "slow", a_picture(), "image/png")
    monkeypatch.setattr(room.desk.media, "hold", keep)
    room.desk.shelf.open_stored("slow")
    room.until(lambda: late, "what is counted")
    room.desk.shelf.open_new()
    room.until(lambda: room.desk.shelf.open.id != "slow")
    monkeypatch.setattr(room.desk.media, "hold", hold)
    asked_before = room.desk.meter.last
    for args, options in late:
        hold(*args, **options)
        assert not options["still"]()
    assert room.desk.meter.last == asked_before


def test_those_that_grow_as_they_are_made_ready_are_made_so_once_and_the_newest_are_sent(
    room: Any, asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small files of other programs, which are large as PNG or JPEG."""
    prompts = asked(room)
    data = a_picture(600, 400, "WEBP")
    pictures = room.desk.media.pictures
    size = len(pictures.prepare(data, 1536).result(20).data)
    assert size > 10 * len(data)
    monkeypatch.setattr(media_files, "MAX_SENT_BYTES", 3 * size)
    monkeypatch.setattr(media_files, "MAX_HELD_BYTES", 6 * size)
    made: list[int] = []
    prepare = pictures.prepare

    def counted(*args: Any) -> Any:
        made.append(1)
        return prepare(*args)

    monkeypatch.setattr(pictures, "prepare", counted)
    room.desk.shelf.open_stored(brought(room, "many", data, "image/webp", 12))
    room.until(lambda: len(room.desk.shelf.path) == 2, "the chat")
    room.desk.meter.count_soon()
    room.ask("What are these?")
    assert [m.id for m in prompts[-1].messages[-3].media] == [
        f"many picture {number}" for number in (9, 10, 11)
    ]
    assert len(made) == 12

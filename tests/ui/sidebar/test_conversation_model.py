"""The list's item model: headings, folders, merging, renaming."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st
from PySide6.QtCore import QMimeData, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtTest import QAbstractItemModelTester
from recording_desk import NOON, conversation

from models.records import Folder
from ui.sidebar.conversation_model import (
    DRAGGED,
    ID_ROLE,
    IS_HEADING_ROLE,
    IS_OPEN_ROLE,
    MERGE_LIMIT,
    ROW_ROLE,
    ConversationModel,
    Dragged,
)

CHATS = [
    conversation(1, "Pinned one", 40, is_pinned=True),
    conversation(2, "The capital of France"),
    conversation(3, "SQL window functions"),
    conversation(4, "Poem about rain", 1),
]


@pytest.fixture
def model(qapp: object) -> ConversationModel:
    made = ConversationModel(now=lambda: NOON)
    # Checks each change that is announced against what the model then says.
    QAbstractItemModelTester(made, QAbstractItemModelTester.FailureReportingMode.Fatal, made)
    made.set_conversations(CHATS)
    return made


def texts(model: ConversationModel) -> list[str]:
    return [str(model.index(row).data()) for row in range(model.rowCount())]


def test_headings_stand_above_their_conversations(model: ConversationModel) -> None:
    assert texts(model) == [
        "Pinned",
        "Pinned one",
        "Today",
        "The capital of France",
        "SQL window functions",
        "Yesterday",
        "Poem about rain",
    ]
    assert model.count() == 4


def test_a_branch_is_marked_and_spoken_as_one(model: ConversationModel) -> None:
    branch = conversation(5, "Poem about rain (branch)", copied_from="m1")
    model.set_conversations([*CHATS, branch])
    place = model.index_of("c5")
    assert place.data(ROW_ROLE).is_branch
    spoken = place.data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "Poem about rain (branch), branch"
    assert not model.index_of("c4").data(ROW_ROLE).is_branch


def test_a_chat_that_replies_is_spoken_as_one(model: ConversationModel) -> None:
    changed: list[int] = []
    model.dataChanged.connect(lambda first, *_: changed.append(first.row()))
    row = next(r for r in range(model.rowCount()) if model.index(r).data(ID_ROLE))
    own = model.index(row).data(ID_ROLE)
    before = model.index(row).data(Qt.ItemDataRole.AccessibleTextRole)
    model.set_replying(frozenset({own, "elsewhere"}))
    assert model.index(row).data(Qt.ItemDataRole.AccessibleTextRole) == f"{before}, replying"
    model.set_replying(frozenset())
    assert model.index(row).data(Qt.ItemDataRole.AccessibleTextRole) == before
    assert changed == [row, row]


def test_headings_cannot_be_chosen_or_renamed(model: ConversationModel) -> None:
    heading = model.index(0)
    assert heading.data(IS_HEADING_ROLE) is True
    assert model.flags(heading) == Qt.ItemFlag.NoItemFlags
    assert model.setData(heading, "x") is False


def test_news_of_a_reply_moves_one_row_and_keeps_the_users_place(model: ConversationModel) -> None:
    place = QPersistentModelIndex(model.index_of("c2"))
    resets = []
    model.modelReset.connect(lambda: resets.append(1))
    newest = conversation(4, "Poem about rain", -0.1)
    model.set_conversations([CHATS[0], newest, CHATS[1], CHATS[2]])
    assert texts(model)[2:4] == ["Today", "Poem about rain"]
    assert "Yesterday" not in texts(model)
    assert place.data(ID_ROLE) == "c2"
    assert not resets


def test_many_new_rows_come_by_one_reset(model: ConversationModel) -> None:
    resets = []
    model.modelReset.connect(lambda: resets.append(1))
    model.set_conversations([conversation(n, f"Chat {n}") for n in range(10, 11 + MERGE_LIMIT)])
    assert resets == [1]
    assert model.count() == MERGE_LIMIT + 1


@given(st.integers(0, 10_000))
def test_any_list_can_follow_any_other(seed: int) -> None:
    dice = random.Random(seed)
    model = ConversationModel(now=lambda: NOON)
    QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal, model)
    for _ in range(4):
        chats = [
            conversation(n, f"Chat {dice.randrange(3)}", dice.choice([0, 1, 3, 50]))
            for n in dice.sample(range(12), dice.randrange(12))
        ]
        model.set_conversations(chats)
        ids = [model.index(row).data(ID_ROLE) for row in range(model.rowCount())]
        assert sorted(each for each in ids if each) == sorted(chat.id for chat in chats)
        assert model.rowCount() == len(chats) + len(
            {text for text, each in zip(texts(model), ids, strict=True) if not each}
        )


FOLDERS = [Folder("f1", "Work", NOON), Folder("f2", "Taxes", NOON, "f1")]


def test_opening_and_closing_a_folder_moves_no_other_row(model: ConversationModel) -> None:
    model.set_conversations([*CHATS, conversation(5, "Forms", folder_id="f2")])
    model.set_folders(FOLDERS)
    place = QPersistentModelIndex(model.index_of("c2"))
    said: list[tuple[str, ...]] = []
    model.closed_changed.connect(said.append)
    assert "Forms" in texts(model)
    model.toggle("f1")
    assert "Forms" not in texts(model)
    assert "Taxes" not in texts(model)
    model.toggle("f1", False)
    assert said == [("f1",)]
    assert place.data(ID_ROLE) == "c2"
    model.toggle("f2")
    assert model.reveal("c5").data() == "Forms"
    assert said[-1] == ()


def test_a_folder_is_spoken_with_its_state(model: ConversationModel) -> None:
    model.set_conversations([conversation(5, "Forms", folder_id="f2")])
    model.set_folders(FOLDERS)
    spoken = model.folder_index("f2").data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "Taxes, folder, 1 chat, expanded, level 2"


def test_renaming_a_folder_is_asked_for(model: ConversationModel) -> None:
    model.set_folders(FOLDERS)
    asked: list[tuple[str, str]] = []
    model.rename_folder_requested.connect(lambda *pair: asked.append(pair))
    model.setData(model.folder_index("f1"), "Job")
    assert asked == [("f1", "Job")]


def test_what_letting_go_means(model: ConversationModel) -> None:
    model.set_conversations([*CHATS, conversation(5, "Forms", folder_id="f2")])
    model.set_folders(FOLDERS)
    assert model.place_at(model.folder_index("f2")) == ("folder", "f2")
    assert model.place_at(model.index_of("c5")) == ("folder", "f2")
    assert model.place_at(model.index_of("c2")) == ("folder", "")
    assert model.place_at(model.index_of("c1")) == ("pin", "")
    assert model.place_at(QModelIndex()) == ("folder", "")


def test_what_is_dragged_is_read_back_and_nothing_else_is(model: ConversationModel) -> None:
    model.set_folders(FOLDERS)
    data = model.mimeData([model.index_of("c2"), model.folder_index("f1")])
    assert model.dragged(data) == Dragged(("c2",), ("f1",))
    for text in (b"", b"[]", b"{", b"\xff", b'{"chat": 3}'):
        foreign = QMimeData()
        foreign.setData(DRAGGED, text)
        assert model.dragged(foreign) is None
    assert model.dragged(QMimeData()) is None


def test_one_conversation_is_marked_as_open(model: ConversationModel) -> None:
    model.set_open("c2")
    model.set_open("c3")
    marked = [r for r in range(model.rowCount()) if model.index(r).data(IS_OPEN_ROLE)]
    assert [model.index(row).data(ID_ROLE) for row in marked] == ["c3"]
    spoken = model.index_of("c3").data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "SQL window functions, open"


def test_a_rename_is_asked_for_and_waits_for_the_desk(model: ConversationModel) -> None:
    asked: list[tuple[str, str]] = []
    model.rename_requested.connect(lambda *pair: asked.append(pair))
    index = model.index_of("c2")
    assert model.setData(index, "  Paris\nand more  ")
    assert asked == [("c2", "Paris and more")]
    assert index.data() == "The capital of France"


@pytest.mark.parametrize("title", ["", "   ", "The capital of France"])
def test_an_empty_or_equal_title_renames_nothing(model: ConversationModel, title: str) -> None:
    asked: list[object] = []
    model.rename_requested.connect(lambda *pair: asked.append(pair))
    assert model.setData(model.index_of("c2"), title) is False
    assert asked == []


def test_a_changed_title_is_shown(model: ConversationModel) -> None:
    model.change_conversation(conversation(3, "Window\nfunctions"))
    assert model.index_of("c3").data() == "Window functions"


def test_an_unknown_id_has_no_row(model: ConversationModel) -> None:
    assert model.index_of("nobody") == QModelIndex()
    assert model.index_of("") == QModelIndex()

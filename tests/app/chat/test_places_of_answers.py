"""Every place where an answer comes back: what it was asked for, and the test of it.

An answer is asked for with `still` (`Surroundings.when_done`, `hand_over`, `Questions.ask` and who
hands a `still` on). Each row says while what is so the answer counts; `always` and why, where
nothing that may have happened since makes it wrong. A place without a row fails here, and so does
a row without its place or its test. Tests hold an answer back, let the state move on, and then let
it come.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from each import each

ROOT = Path(__file__).parents[3]
LATE = "app/chat/test_late_answers.py"

PLACES = {
    "app/chat/server/opened.py keep": (
        "always: a part of what was begun",
        "app/chat/server/test_opened.py",
        "test_it_is_never_written_unless_it_is_kept",
    ),
    "app/chat/server/opened.py _write": (
        "always: it is stored; it is opened only where the request is on screen still",
        "app/chat/server/test_opened.py",
        "test_what_was_kept_meanwhile_does_not_come_over_another_chat",
    ),
    "app/chat/server/serving.py _turn": (
        "always: it listens; what is wanted by then is looked at next",
        "app/chat/server/test_serving.py",
        "test_what_is_wanted_by_then_counts",
    ),
    "app/chat/server/serving.py _begun": (
        "always: it asks itself whether this is the server that runs",
        "app/chat/server/test_serving.py",
        "test_a_server_that_ends_by_itself_says_so",
    ),
    "app/chat/server/serving.py _work": (
        "always: of the one key",
        "app/chat/server/test_serving.py",
        "test_the_key_is_in_the_keyring_and_read_at_the_next_start",
    ),
    "app/chat/server/serving.py wake": (
        "always: it asks for what is loaded by then",
        "app/chat/server/test_serving.py",
        "test_a_model_that_was_unloaded_is_loaded_for_a_request",
    ),
    "app/chat/replies/replies.py _settle_parts": (
        "the message waits still",
        "app/chat/retrieval/test_desk_parts.py",
        "test_who_would_not_wait_has_it_searched_by_words",
    ),
    "app/chat/retrieval/sending.py _count": (
        "always: a fact about a text that is stored",
        "app/chat/retrieval/test_desk_parts.py",
        "test_a_long_document_is_searched_for_each_question",
    ),
    "app/chat/retrieval/search.py _with_cut": (
        "always: a fact about a text; whoever waits for it looks for himself",
        "app/chat/retrieval/test_desk_parts.py",
        "test_what_was_found_for_other_words_or_another_chat_is_dropped",
    ),
    "app/chat/retrieval/draft.py _refresh": (
        "the same words are in the draft of the same chat",
        "app/chat/retrieval/test_desk_parts.py",
        "test_what_was_found_for_other_words_or_another_chat_is_dropped",
    ),
    "app/chat/retrieval/draft.py _count_each": (
        "nothing else was asked for",
        "app/chat/retrieval/test_desk_parts.py",
        "test_what_was_found_for_other_words_or_another_chat_is_dropped",
    ),
    "ui/settings/settings_window.py _try_embedding": (
        "the same model is chosen",
        "ui/settings/test_settings_window.py",
        "test_an_embedding_model_is_tried_as_it_is_chosen_and_only_the_last_one_counts",
    ),
    "app/chat/replies/replies.py _prepare": (
        "the message waits still",
        "app/chat/replies/test_summaries.py",
        "test_stop_ends_the_summary_and_what_waits_for_it",
    ),
    "app/chat/replies/summaries.py _begin": (
        "the summary was not stopped",
        "app/chat/replies/test_summaries.py",
        "test_stop_ends_the_summary_and_what_waits_for_it",
    ),
    "app/chat/replies/summaries.py _write_next": (
        "the summary was not stopped",
        "app/chat/replies/test_summaries.py",
        "test_stop_ends_the_summary_and_what_waits_for_it",
    ),
    "app/chat/replies/summaries.py _store_node": (
        "its temporary chat has not ended",
        "app/chat/replies/test_summaries.py",
        "test_before_a_message_is_sent_what_falls_out_is_summarized",
    ),
    "app/chat/weights/control_vectors.py make": (
        "no other one was asked for since, and it was not stopped",
        "app/chat/weights/test_control_vectors.py",
        "test_it_can_be_stopped_and_a_later_one_counts",
    ),
    "app/chat/engines/engines.py _in_background": (
        "always: it looks at what is listed by then",
        "app/chat/engines/test_engines.py",
        "test_a_key_goes_to_the_keyring_and_to_its_address_and_nowhere_else",
    ),
    "app/chat/engines/engines.py try_now": (
        "it is still listed, and was not asked again since",
        "app/chat/engines/test_engines.py",
        "test_an_answer_of_one_that_was_changed_or_removed_is_dropped",
    ),
    "app/chat/tools/servers.py values_of": (
        "always: they are those of the keyring, and what is done with them asks itself",
        "app/chat/tools/test_turns.py",
        "test_the_value_of_a_secret_is_in_the_keyring_and_at_its_server_alone",
    ),
    "app/chat/tools/servers.py put": (
        "always: that a value could not be kept is said in any case",
        "app/chat/tools/test_turns.py",
        "test_the_value_of_a_secret_is_in_the_keyring_and_at_its_server_alone",
    ),
    "app/chat/tools/servers.py _on_host_state": (
        "the server was not started anew or ended since",
        "app/chat/tools/test_turns.py",
        "test_another_command_is_not_allowed_what_the_former_was",
    ),
    "app/chat/tools/servers.py call": (
        "always: turns drop what belongs nowhere",
        "app/chat/tools/test_turns.py",
        "test_a_result_that_belongs_nowhere_any_more_is_dropped",
    ),
    "app/chat/tools/servers.py attach_resource": (
        "always: it goes to the draft that it was asked for",
        "app/chat/tools/test_turns.py",
        "test_resources_and_prompts_are_attached_to_the_draft",
    ),
    "app/chat/tools/servers.py get_prompt": (
        "the chat is open still",
        "app/chat/tools/test_turns.py",
        "test_resources_and_prompts_are_attached_to_the_draft",
    ),
    "app/chat/tools/turns.py on_reply_ended": (
        "no other reply grows in that chat by now",
        "app/chat/tools/test_turns.py",
        "test_a_call_goes_on_while_another_chat_is_open",
    ),
    "app/chat/tools/turns.py _keep": (
        "its temporary chat has not ended",
        "app/chat/tools/test_turns.py",
        "test_a_result_that_belongs_nowhere_any_more_is_dropped",
    ),
    "app/chat/inspection/lanes.py read": (
        "always: it asks itself whether the same weights are loaded",
        "app/chat/inspection/test_lanes.py",
        "test_what_an_engine_that_is_gone_tells_is_dropped",
    ),
    "app/chat/inspection/seeds.py start": (
        "no other table was begun since",
        "app/chat/inspection/test_seeds.py",
        "test_a_path_that_comes_after_another_one_was_begun_is_dropped",
    ),
    "app/chat/inspection/seeds.py _fill": (
        "always: nobody waits for it",
        "app/chat/inspection/test_seeds.py",
        "test_outcomes_are_counted_and_nothing_is_stored",
    ),
    "app/chat/inspection/seeds.py _ask": (
        "always: it is of its own table, and stopping one waits for its ends",
        "app/chat/inspection/test_seeds.py",
        "test_it_stops_at_any_time_and_keeps_what_it_has",
    ),
    "app/chat/settings/thinking.py refresh": (
        "always: kept for that template and those weights",
        "app/chat/settings/test_thinking.py",
        "test_the_offer_comes_with_the_weights_and_goes_with_them",
    ),
    # --- what stands on the screen
    "app/chat/conversations/shelf.py open_stored": (
        "this chat is the one that was wanted last, and no new one is begun instead",
        LATE,
        "test_a_chat_that_cannot_be_read_is_no_news_where_another_one_is_wanted",
    ),
    "app/chat/conversations/shelf.py _read_on": (
        "the path on screen begins with the message above which it was asked",
        LATE,
        "test_the_beginning_of_a_chat_that_was_left_and_opened_again_comes_once",
    ),
    "app/chat/conversations/shelf.py list_trash": (
        "always: of all chats",
        "app/chat/conversations/test_desk_folders.py",
        "test_the_trash_is_restored_or_deleted_for_good",
    ),
    "app/chat/conversations/shelf.py restore": (
        "the chat is not back already",
        LATE,
        "test_a_chat_that_was_restored_and_thrown_away_again_stays_in_the_trash",
    ),
    "app/chat/conversations/shelf.py _restore": (
        "always: it is done; shown only if no other chat is wanted",
        LATE,
        "test_a_restored_chat_does_not_take_the_screen_from_one_chosen_since",
    ),
    "app/chat/conversations/shelf.py _tell_trash_after": (
        "always: it is done",
        "app/chat/conversations/test_desk_conversations.py",
        "test_trash_can_be_undone",
    ),
    "app/chat/conversations/paths.py read_again": (
        "the same chat, and no other path was asked for nor anything sent",
        "app/chat/exchange/test_brought_again.py",
        "test_again_adds_nothing_and_newer_adds_what_is_new",
    ),
    "app/chat/conversations/paths.py show_version": (
        "the same chat, and no other path was asked for nor anything sent",
        LATE,
        "test_a_version_that_is_shown_late_does_not_replace_what_was_sent",
    ),
    "app/chat/conversations/paths.py go_to_leaf": (
        "as above",
        LATE,
        "test_of_two_wishes_the_later_one_counts",
    ),
    "app/chat/conversations/paths.py show_changed": (
        "always: the change is made; its path is shown as above",
        LATE,
        "test_what_is_sent_while_messages_change_goes_below_what_they_become",
    ),
    "app/chat/conversations/tree.py restore": (
        "no other chat is wanted",
        LATE,
        "test_a_branch_of_another_chat_that_is_restored_does_not_take_the_screen",
    ),
    "app/chat/conversations/tree.py branch_off": (
        "always: it is made and listed; opened only if no other chat is wanted",
        LATE,
        "test_a_chat_that_is_chosen_after_a_branch_was_asked_for_stays",
    ),
    "app/chat/conversations/tree.py read_tree": (
        "the chat is open",
        LATE,
        "test_the_map_and_the_versions_of_a_chat_that_was_left_are_told_to_nobody",
    ),
    "app/chat/conversations/tree.py read_versions": (
        "the chat is open",
        LATE,
        "test_the_map_and_the_versions_of_a_chat_that_was_left_are_told_to_nobody",
    ),
    "app/chat/conversations/tree.py list_trashed": (
        "always: of all chats",
        "app/chat/conversations/test_desk_tree.py",
        "test_what_was_deleted_is_restored_from_the_trash_after_a_restart",
    ),
    "app/chat/conversations/tree.py _list_trashed_after": (
        "always: it is done",
        "app/chat/conversations/test_desk_tree.py",
        "test_what_was_deleted_is_restored_from_the_trash_after_a_restart",
    ),
    "app/chat/conversations/searching.py _ask": (
        "nothing else is searched for",
        "app/chat/conversations/test_desk_searching.py",
        "test_an_answer_on_its_way_is_dropped_when_the_field_is_emptied",
    ),
    "app/chat/conversations/searching.py open_at": (
        "no other chat is wanted",
        LATE,
        "test_a_chat_that_is_chosen_after_a_hit_was_asked_for_stays",
    ),
    # --- lists and drafts
    "app/chat/conversations/folders.py read": (
        "always: what was changed here since stays",
        LATE,
        "test_a_folder_that_is_deleted_while_the_list_is_read_is_gone",
    ),
    "app/chat/conversations/folders.py take_in": (
        "always: what was changed here since stays",
        LATE,
        "test_a_list_that_was_asked_for_before_brings_nothing_back_from_the_trash",
    ),
    "app/chat/conversations/folders.py delete": (
        "always: what went elsewhere meanwhile stays there",
        "app/chat/conversations/test_desk_folders.py",
        "test_deleting_a_folder_hands_its_chats_up_and_can_be_undone",
    ),
    "app/chat/conversations/folders.py trash": (
        "always: it is done",
        "app/chat/conversations/test_desk_folders.py",
        "test_many_are_trashed_and_come_back_with_one_undo",
    ),
    "app/chat/conversations/folders.py restore": (
        "always, for each that is not back already",
        LATE,
        "test_a_chat_that_was_restored_and_thrown_away_again_stays_in_the_trash",
    ),
    "app/chat/conversations/folders.py _restore": (
        "always: it is done; shown only if no other chat is wanted",
        LATE,
        "test_what_was_queued_and_typed_is_in_the_draft_of_a_chat_in_the_trash",
    ),
    "app/chat/conversations/folders.py delete_for_good": (
        "always: it is done",
        "app/chat/conversations/test_deleted_for_good.py",
        "test_a_chat_that_is_deleted_for_good_is_in_no_file",
    ),
    "app/chat/conversations/folders.py purge_expired": (
        "always: it is done",
        "app/chat/conversations/test_desk_folders.py",
        "test_what_is_old_in_the_trash_is_deleted_at_the_start",
    ),
    "app/chat/conversations/folders.py delete_backups": (
        "always: it is done",
        "app/chat/conversations/test_deleted_for_good.py",
        "test_backups_hold_it_until_they_are_deleted_as_well",
    ),
    "app/chat/conversations/tagging.py _everywhere": (
        "always: the tags that there were then",
        "app/chat/conversations/test_tagging.py",
        "test_several_chats_are_tagged_renamed_and_all_of_it_is_taken_back",
    ),
    "app/chat/conversations/title_writing.py _begin": (
        "its title is still to be written",
        "app/chat/conversations/test_title_writing.py",
        "test_it_waits_until_nothing_runs_and_a_missed_one_comes_later",
    ),
    "app/chat/conversations/title_writing.py _ask": (
        "its title is still to be written",
        "app/chat/conversations/test_title_writing.py",
        "test_what_a_person_called_it_stays_also_while_the_weights_write",
    ),
    "app/chat/exchange/backups.py make": (
        "always: it has been made",
        "app/chat/exchange/test_backups.py",
        "test_one_is_made_looked_into_and_a_chat_comes_back_out_of_it",
    ),
    "app/chat/exchange/backups.py restore": (
        "always: the newest choice counts",
        "app/chat/exchange/test_backups.py",
        "test_a_restore_is_chosen_and_done_by_the_next_start",
    ),
    "app/chat/exchange/backups.py keep_as_is": (
        "always: the newest choice counts",
        "app/chat/exchange/test_backups.py",
        "test_a_restore_is_chosen_and_done_by_the_next_start",
    ),
    "app/chat/exchange/exchange.py bring_back": (
        "always: it has been added",
        "app/chat/exchange/test_backups.py",
        "test_one_is_made_looked_into_and_a_chat_comes_back_out_of_it",
    ),
    "ui/settings/backup_page.py read": (
        "always: the newest list counts",
        "ui/settings/test_backup_page.py",
        "test_it_lists_what_there_is_and_looks_into_one",
    ),
    "ui/settings/backup_page.py _look": (
        "this backup is the one that is chosen still",
        "ui/settings/test_backup_page.py",
        "test_an_answer_about_another_backup_is_dropped",
    ),
    "app/chat/aloud/aloud.py read": (
        "this reading goes on still",
        "app/chat/aloud/test_aloud.py",
        "test_it_stops_at_once_pauses_goes_on_and_skips",
    ),
    "app/chat/conversations/edits.py _leave_out": (
        "always: what was typed since is no part of what was asked about",
        "app/chat/conversations/test_edits.py",
        "test_those_of_a_chat_that_is_gone_for_good_go_at_the_next_start",
    ),
    "app/chat/settings/presets.py list": (
        "always: what was changed here since stays",
        LATE,
        "test_presets_that_are_changed_while_the_list_is_read_stay_so",
    ),
    "app/chat/settings/presets.py _take": (
        "always: they are made once",
        "app/chat/settings/test_presets.py",
        "test_deleted_starters_do_not_come_back",
    ),
    "app/chat/attachments/attachments.py remove": (
        "always: its bytes, for the draft that it goes back to",
        "app/chat/attachments/test_desk_pictures.py",
        "test_a_draft_keeps_its_picture_over_a_restart_and_a_removal_can_be_undone",
    ),
    "app/chat/attachments/media_files.py _read": (
        "always: the bytes of that very attachment, which never change",
        "app/chat/attachments/test_desk_pictures.py",
        "test_a_chat_that_is_opened_again_has_its_pictures_in_the_prompt",
    ),
    "app/chat/attachments/media_files.py _settle": (
        "always: the bytes of that very attachment, which never change",
        "app/chat/attachments/test_desk_pictures.py",
        "test_a_picture_of_another_program_is_made_ready_before_it_is_sent",
    ),
    "app/chat/attachments/media_files.py load": (
        "always: whoever looks at it tells whether it still does",
        "scenarios/test_pictures.py",
        "test_a_click_opens_a_window_that_zooms_copies_and_saves",
    ),
    "app/chat/replies/counting.py _count": (
        "the chat is open",
        "app/chat/attachments/test_desk_pictures.py",
        "test_pictures_that_come_late_are_counted_in_their_chat_alone",
    ),
    "ui/pictures/thumbnails.py _ask": (
        "it is still asked for, and not given up for others",
        "ui/pictures/test_thumbnails.py",
        "test_one_is_asked_for_once_and_what_was_scrolled_past_is_given_up",
    ),
    "ui/pictures/viewer.py _show": (
        "the window shows that very one",
        "scenarios/test_pictures.py",
        "test_a_click_opens_a_window_that_zooms_copies_and_saves",
    ),
    "app/chat/attachments/attachments.py _ask_count": (
        "always: the next one may be counted; it is the number of that very text",
        LATE,
        "test_the_count_of_a_text_that_is_read_otherwise_by_now_is_not_its_own",
    ),
    "app/chat/attachments/attachments.py _add_beside": (
        "always: for the chat that they were given to",
        LATE,
        "test_a_file_for_a_new_chat_that_was_left_is_refused_in_words",
    ),
    "app/chat/attachments/attachments.py _read": (
        "the chat is on screen, and a file of it is still read",
        "app/chat/attachments/test_documents.py",
        "test_how_far_it_is_read_is_told_of_the_chat_on_screen",
    ),
    "app/chat/attachments/attachments.py use_sources": (
        "the page is in the draft still",
        "app/chat/attachments/test_documents.py",
        "test_the_source_of_a_web_page_can_be_attached_instead",
    ),
    "app/chat/attachments/attachments.py read_as": (
        "it is in a draft, and this encoding is the one that was chosen last",
        "app/chat/attachments/test_desk_attachments.py",
        "test_a_guessed_encoding_can_be_changed",
    ),
    "app/chat/attachments/attachments.py _store_and_put": (
        "its chat is not a temporary one that has ended",
        LATE,
        "test_a_text_for_a_temporary_chat_that_has_ended_is_nobodys",
    ),
    "app/chat/attachments/attachments.py read_draft": (
        "the chat is open; what was sent or removed since is left out",
        LATE,
        "test_attachments_that_were_sent_while_the_draft_was_read_do_not_come_back",
    ),
    "app/chat/attachments/attachments.py count_missing": (
        "always: the next one may be counted; it is the number of that very text",
        LATE,
        "test_the_count_of_a_text_that_is_read_otherwise_by_now_is_not_its_own",
    ),
    # --- replies
    "app/chat/replies/replies.py _send_queued": (
        "it waits still, and was not stopped",
        LATE,
        "test_a_queued_message_of_a_chat_that_is_trashed_before_it_is_sent_is_a_draft",
    ),
    "app/chat/replies/replies.py _send": (
        "its chat is not a temporary one that has ended",
        LATE,
        "test_a_temporary_chat_that_ends_while_something_of_it_is_written_is_no_failure",
    ),
    "app/chat/replies/replies.py _move": (
        "as above; its path is shown only if no other one is on screen",
        LATE,
        "test_a_message_that_is_moved_as_it_is_sent_is_shown_and_answered_where_it_is",
    ),
    "app/chat/replies/replies.py _begin": (
        "the reply is in the making",
        LATE,
        "test_a_temporary_chat_that_ends_while_something_of_it_is_written_is_no_failure",
    ),
    "app/chat/replies/replies.py _on_placed": (
        "the reply is in the making",
        LATE,
        "test_a_reply_whose_row_comes_when_its_temporary_chat_has_ended_is_nobodys",
    ),
    "app/chat/replies/beams.py search": (
        "it is the newest search, and not stopped",
        "app/chat/replies/test_beams.py",
        "test_a_search_is_stopped_and_what_it_found_can_be_used",
    ),
    "app/chat/replies/beams.py _ask": (
        "always: a newer search or a stop has it dropped",
        "app/chat/replies/test_beams.py",
        "test_a_search_is_stopped_and_what_it_found_can_be_used",
    ),
    "app/chat/replies/branch_at.py at": (
        "the reply is on the path on screen",
        LATE,
        "test_a_reply_of_a_chat_that_was_left_is_not_branched",
    ),
    "app/chat/replies/branch_at.py at_piece": (
        "the reply is on the path still",
        "app/chat/replies/test_server_replies.py",
        "test_a_trace_that_comes_after_another_version_was_shown_branches_nothing",
    ),
    "app/chat/replies/branch_at.py at_text": (
        "the reply is on the path on screen",
        LATE,
        "test_a_reply_of_a_chat_that_was_left_is_not_branched_with_a_text",
    ),
    "app/chat/replies/traces.py read": (
        "always: it carries its message, and whoever looks at that one takes it",
        "ui/section/test_looking.py",
        "test_a_stored_trace_arrives",
    ),
    "app/chat/replies/counting.py _ask": (
        "always: the next one may be asked for; told only of the open chat",
        LATE,
        "test_the_count_of_a_chat_that_was_left_is_not_that_of_the_open_one",
    ),
    # --- what is looked into
    "app/chat/inspection/cache.py forget": (
        "always: it has ended for good",
        "app/chat/conversations/test_desk_temporary.py",
        "test_its_tokens_leave_the_cache_with_it",
    ),
    "app/chat/inspection/prompt_scoring.py ask": (
        "always: what it left in the cache goes; told only to who waits still",
        "app/chat/inspection/test_prompt_scoring.py",
        "test_whoever_stops_it_is_called_no_more_and_may_ask_again",
    ),
    "app/chat/inspection/prompt_scoring.py _end": (
        "always: nobody is told",
        "app/chat/inspection/test_prompt_scoring.py",
        "test_it_leaves_nothing_in_the_cache",
    ),
    "app/chat/inspection/what_if.py ask": (
        "it is the newest question, and not stopped",
        "app/chat/inspection/test_what_if.py",
        "test_a_newer_question_ends_an_older_one",
    ),
    "app/chat/inspection/what_if.py ask_engine": (
        "it is the newest question, and not stopped",
        "app/chat/inspection/test_what_if.py",
        "test_stop_stops_the_engine_too",
    ),
    "app/chat/inspection/live_draw.py walk": (
        "it is the newest question, and not stopped",
        "app/chat/inspection/test_live_draw.py",
        "test_a_newer_question_ends_an_older_one",
    ),
    "app/chat/inspection/live_draw.py replay": (
        "it is the newest question, and not stopped",
        "app/chat/inspection/test_live_draw.py",
        "test_a_newer_question_ends_an_older_one",
    ),
    "app/chat/inspection/memory.py read": (
        "it is the newest question",
        "app/chat/weights/test_idle.py",
        "test_a_newer_look_at_memory_replaces_an_older_one",
    ),
    "app/chat/inspection/words.py read": (
        "those of no other weights were asked for since; kept for the ones that were asked",
        LATE,
        "test_the_words_of_other_weights_are_asked_for_while_the_first_are_on_their_way",
    ),
    # --- weights
    "app/chat/weights/saved_chats.py _ask": (
        "always: nobody waits for it",
        "app/chat/weights/test_saved_chats.py",
        "test_stored_chats_are_saved_and_a_temporary_one_is_not",
    ),
    "app/chat/weights/saved_chats.py _sweep": (
        "always: as above",
        "app/chat/weights/test_saved_chats.py",
        "test_what_belongs_to_no_chat_goes_at_the_start",
    ),
    "app/chat/weights/loading.py load": (
        "no others were chosen, nor unloaded, nor the load cancelled",
        "app/chat/weights/test_desk_weights.py",
        "test_only_the_file_chosen_last_is_loaded",
    ),
    "app/chat/weights/fits.py look": (
        "always: it is what was free beside the weights that were loaded then",
        "app/chat/weights/test_desk_fit.py",
        "test_what_was_free_before_a_load_does_not_come_back_again",
    ),
    "app/chat/weights/fits.py _take_host": (
        "as above",
        "app/chat/weights/test_desk_fit.py",
        "test_what_was_free_before_a_load_does_not_come_back_again",
    ),
    "app/chat/weights/fits.py _answer": (
        "it was neither stopped nor asked anew",
        "app/chat/weights/test_desk_fit.py",
        "test_one_file_comes_before_a_list_and_the_last_wish_counts",
    ),
    "app/chat/weights/header_files.py write_copy": (
        "always: the copy is there, or not; how far it is comes before its end",
        "app/chat/weights/test_header_files.py",
        "test_a_copy_is_told_of_to_its_end",
    ),
    "app/chat/weights/draft_partners.py find": (
        "nobody has asked anew",
        "app/chat/weights/test_weights_defaults.py",
        "test_who_asked_for_partners_before_somebody_else_did_is_not_answered",
    ),
    "app/chat/weights/local_weights.py begin": (
        "always: it is begun once",
        "app/chat/weights/test_desk_library.py",
        "test_folders_and_hashes_are_known_at_the_next_start",
    ),
    "app/chat/weights/local_weights.py _start": (
        "always: what is known now, in the order that it was found out",
        "app/chat/weights/test_desk_library.py",
        "test_a_folder_is_looked_into_and_left_again",
    ),
    "app/chat/weights/local_weights.py _ask_what_is_verified": (
        "always: of files by their size and time",
        "app/chat/weights/test_desk_library.py",
        "test_a_download_of_ours_is_known_by_the_hash_that_it_came_with",
    ),
    "app/chat/weights/local_weights.py add_folder": (
        "always: added to those that there are by then",
        "app/chat/weights/test_desk_library.py",
        "test_choosing_a_folder_that_hangs_does_not_hold_the_owner",
    ),
    "app/chat/settings/template_preview.py _work": (
        "it is the newest question",
        "app/chat/settings/test_template_preview.py",
        "test_an_answer_that_is_under_way_as_a_newer_question_is_asked_is_dropped",
    ),
    # --- the hub, downloads, files
    "app/chat/hub/hub_questions.py _ask": (
        "it is the newest of its kind, and was not stopped",
        "app/chat/hub/test_hub_questions.py",
        "test_the_newest_question_alone_is_answered",
    ),
    "app/chat/hub/hub_questions.py _on_token_refused": (
        "that token is the one that is refused",
        "app/chat/hub/test_hub_questions.py",
        "test_a_token_that_has_run_out_is_said_and_left_out",
    ),
    "app/chat/hub/fetching.py begin": (
        "always: it is begun once",
        "app/chat/hub/test_fetching.py",
        "test_it_goes_on_after_a_restart_by_itself",
    ),
    "app/chat/hub/fetching.py set_folder": (
        "no other folder was chosen",
        LATE,
        "test_of_two_folders_for_downloads_the_one_that_was_chosen_last_counts",
    ),
    "app/chat/hub/fetching.py create": (
        "always: its row is there",
        "app/chat/hub/test_fetching.py",
        "test_a_download_goes_into_the_data_folder_and_is_told",
    ),
    "app/chat/exchange/exchange.py take_files": (
        "always: for the chat that they were given to",
        LATE,
        "test_files_that_were_dropped_on_a_chat_that_was_left_are_its_own",
    ),
    "app/chat/exchange/exchange.py export": (
        "always: it has ended",
        "app/chat/exchange/test_exchange.py",
        "test_a_cancelled_export_leaves_what_was_there",
    ),
    "app/chat/exchange/exchange.py import_previewed": (
        "always: it has ended",
        "app/chat/exchange/test_long_import.py",
        "test_cancelled_it_leaves_nothing",
    ),
    "app/chat/exchange/exchange.py preview": (
        "always: it has ended",
        "app/chat/exchange/test_long_import.py",
        "test_looking_says_how_many_chats_there_are_and_can_be_cancelled",
    ),
    "app/chat/exchange/exchange.py _now_and_then": (
        "always: it comes before the end",
        "app/chat/exchange/test_long_import.py",
        "test_it_says_how_far_it_is",
    ),
    "app/chat/exchange/exchange.py drop_unfinished": (
        "always: of an earlier run",
        "app/chat/exchange/test_long_import.py",
        "test_what_a_kill_left_is_gone_after_the_next_start",
    ),
    "app/chat/exchange/exchange.py _begin": (
        "always: the next one may begin",
        "app/chat/exchange/test_exchange.py",
        "test_one_at_a_time",
    ),
    "app/chat/tour/page.py _ask": (
        "the page is the newest one that is wanted, and the model is still loaded",
        "app/chat/tour/test_page.py",
        "test_one_that_is_cancelled_is_not_written",
    ),
    # --- the start, and writes
    "app/chat/desk.py start": (
        "always: the store is opened once",
        "app/chat/test_desk.py",
        "test_message_sent_before_the_start_is_answered",
    ),
    "app/chat/desk.py _on_store_opened": (
        "always: merged with what was done since; nothing is loaded where somebody chose already",
        LATE,
        "test_what_was_used_last_is_not_loaded_where_somebody_wanted_none",
    ),
    "app/chat/surroundings.py saved": (
        "always: a write that failed is said",
        LATE,
        "test_an_answer_is_dropped_where_it_is_so_no_longer_what_it_was_asked_for",
    ),
    # --- views
    "ui/library/header/window.py open": (
        "the file is the one that is shown, and is not read anew",
        "ui/library/header/test_window.py",
        "test_a_header_that_comes_when_another_file_is_shown_is_dropped",
    ),
    "ui/library/header/window.py _ask_items": (
        "the file is shown, and the key is chosen",
        "ui/library/header/test_window.py",
        "test_a_list_that_is_read_too_late_to_be_changed_is_neither_offered_nor_told_of",
    ),
    "ui/library/header/value_pane.py _ask_items": (
        "nothing else is shown there",
        "ui/library/header/test_window.py",
        "test_the_value_of_another_key_that_comes_late_is_not_shown",
    ),
    "ui/library/header/value_pane.py _ask_text": (
        "nothing else is shown there",
        "ui/library/header/test_window.py",
        "test_the_value_of_another_key_that_comes_late_is_not_shown",
    ),
    "ui/section/cache/cards.py _on_button": (
        "always: it has ended; its figures are shown for that chat and those weights alone",
        "ui/section/cache/test_panel.py",
        "test_figures_that_come_for_a_chat_that_was_left_are_not_those_of_the_open_one",
    ),
    "ui/section/cache/panel.py _ask": (
        "always: of all chats, shown for the open one",
        "ui/section/cache/test_panel.py",
        "test_what_was_measured_of_one_chat_does_not_stand_beside_another",
    ),
    "ui/section/cache/panel.py _do": (
        "always: it is done; told in that chat alone",
        "ui/section/cache/test_panel.py",
        "test_what_was_done_in_a_chat_that_was_left_is_not_told_in_the_open_one",
    ),
    "ui/settings/settings_window.py _measure_saved": (
        "always: the newest counts",
        "ui/settings/test_settings_window.py",
        "test_saved_chat_caches_are_measured_limited_and_deleted",
    ),
    "ui/section/inside/layers/attention_card.py _measure": (
        "the same weights are loaded",
        "ui/section/inside/layers/test_attention_card.py",
        "test_names_that_come_when_other_weights_are_loaded_are_dropped",
    ),
    "ui/section/inside/vectors/embedding_card.py _ask": (
        "the same token of the same weights is looked at",
        "ui/section/inside/vectors/test_nearest_card.py",
        "test_lengths_that_come_for_another_token_are_dropped",
    ),
    "ui/section/inside/machine/card.py _read": (
        "the same weights are loaded",
        "ui/section/inside/machine/test_card.py",
        "test_what_comes_of_weights_that_are_loaded_no_more_is_dropped",
    ),
    "ui/section/inside/machine/card.py _measure": (
        "the same weights are loaded, and it was not cancelled",
        "ui/section/inside/machine/test_card.py",
        "test_what_comes_of_weights_that_are_loaded_no_more_is_dropped",
    ),
    "ui/section/inside/vectors/map_card.py _find": (
        "these words are typed, of the same weights",
        "ui/section/inside/vectors/test_map_card.py",
        "test_a_map_of_words_that_are_typed_no_more_is_dropped",
    ),
    "ui/section/inside/vectors/map_card.py _place": (
        "as above",
        "ui/section/inside/vectors/test_map_card.py",
        "test_a_map_of_words_that_are_typed_no_more_is_dropped",
    ),
    "ui/section/inside/vectors/nearest_card.py _ask": (
        "these words are typed, of the same weights",
        "ui/section/inside/vectors/test_nearest_card.py",
        "test_an_answer_about_what_is_typed_no_more_is_dropped",
    ),
    "ui/section/inside/vectors/nearest_card.py _compare": (
        "as above",
        "ui/section/inside/vectors/test_nearest_card.py",
        "test_an_answer_about_what_is_typed_no_more_is_dropped",
    ),
    "ui/section/inside/vectors/position_card.py _ask": (
        "the same weights are loaded",
        "ui/section/inside/vectors/test_position_card.py",
        "test_how_other_weights_do_it_is_dropped",
    ),
    "ui/section/inside/vectors/word_swap.py _on_button": (
        "the same two words of the same text are chosen, and the same token is looked at",
        "ui/section/inside/vectors/test_position_card.py",
        "test_a_swap_that_comes_when_another_token_is_looked_at_is_dropped",
    ),
    "ui/section/inside/layers/lens_map_card.py _ask": (
        "the same token is looked at, with the same weights, and the card is open",
        "ui/section/inside/layers/test_lens_map_card.py",
        "test_columns_of_a_token_that_was_left_are_dropped",
    ),
    "ui/section/inside/layers/matrix_pane.py _ask": (
        "the same layer of the same token, with the same weights, is shown as a matrix",
        "ui/section/inside/layers/test_matrix_pane.py",
        "test_rows_of_a_token_that_was_left_are_dropped",
    ),
    "ui/section/inside/view.py follow": (
        "the same token of the same reply is chosen, and the same weights are loaded",
        "ui/section/inside/test_view.py",
        "test_a_text_that_comes_when_another_token_is_chosen_is_dropped",
    ),
    "ui/section/inside/view.py _take_text": (
        "as above",
        "ui/section/inside/test_view.py",
        "test_what_the_network_made_of_a_token_that_was_left_is_dropped",
    ),
    "ui/section/prompt/panel.py _read": (
        "always: one at a time, asked again where it is stale",
        "ui/section/prompt/test_panel.py",
        "test_another_reply_is_asked_about_and_a_late_answer_is_dropped",
    ),
    "ui/section/inside/layers/who_card.py _ask_without": (
        "the same part of the same token is tested",
        "ui/section/inside/layers/test_who_card.py",
        "test_the_result_of_a_test_of_another_part_is_dropped",
    ),
    "ui/section/inside/layers/who_card.py _read_other": (
        "the same token is looked at, against the same one",
        "ui/section/inside/layers/test_who_card.py",
        "test_a_token_that_was_typed_for_one_that_was_left_is_dropped",
    ),
    "ui/section/inside/layers/who_card.py show_seen": (
        "the same token is looked at, against the same one, with the same weights",
        "ui/section/inside/layers/test_who_card.py",
        "test_what_comes_for_a_token_that_was_left_is_dropped",
    ),
    "ui/section/prompt/panel.py _on_difference": (
        "the difference is looked at still, of the same prompt",
        "ui/section/prompt/test_panel.py",
        "test_a_difference_that_comes_when_nobody_looks_at_it_any_more_is_dropped",
    ),
    "ui/section/sampling/bias_editor.py _row": (
        "its row is there",
        "ui/section/sampling/test_chain_room.py",
        "test_ids_that_come_for_an_entry_that_was_taken_out_are_nobodys",
    ),
    "ui/section/sampling/grammar_editor.py check_now": (
        "the text is the one that stands there, in the same chat",
        "ui/section/sampling/test_grammar_editor.py",
        "test_an_answer_to_an_older_text_is_dropped",
    ),
    "ui/section/tokens/try_text.py _ask": (
        "the text is the one that stands there",
        "ui/section/tokens/test_try_text.py",
        "test_an_answer_that_was_overtaken_is_dropped",
    ),
    "ui/section/tokens/try_text.py _take": (
        "the text is the one that stands there",
        "ui/section/tokens/test_try_text.py",
        "test_an_answer_that_was_overtaken_is_dropped",
    ),
    "ui/section/tokens/vocabulary_browser.py _follow": (
        "no other weights are shown",
        "ui/section/tokens/test_vocabulary_browser.py",
        "test_what_is_said_of_the_file_of_other_weights_comes_too_late",
    ),
    "ui/section/inside/view.py _learn": (
        "the weights are loaded still",
        "ui/section/inside/test_panel.py",
        "test_what_other_weights_lack_comes_too_late",
    ),
    "ui/tour/live_facts.py _ask": (
        "the fact is wanted, and the same token of the same reply and file is looked at",
        "ui/tour/test_live_facts.py",
        "test_an_answer_about_anything_else_by_now_is_no_fact",
    ),
    "ui/tokens/token_view_acts.py _look_for_cut": (
        "always: kept for that text and those weights",
        "ui/tokens/test_token_view_acts.py",
        "test_a_question_is_cut_by_the_loaded_vocabulary_once",
    ),
}


def asked_in(path: Path) -> list[str]:
    """The methods that ask for an answer. Who hands on the `still` that it was given only passes
    on: whoever gave it is the place."""
    source, found = path.read_text("utf-8"), []
    if "hand_over(" not in source and "still=" not in source:  # most files, at no cost
        return []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef):
            continue
        for method in node.body:
            if not isinstance(method, ast.FunctionDef):
                continue
            arguments = {a.arg for a in (*method.args.args, *method.args.kwonlyargs)}
            if "still" not in arguments and any(map(_asks, ast.walk(method))):
                found.append(f"{path.relative_to(ROOT).as_posix()} {method.name}")
    return found


def _asks(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    is_handed_over = isinstance(node.func, ast.Attribute) and node.func.attr == "hand_over"
    return is_handed_over or any(keyword.arg == "still" for keyword in node.keywords)


def test_every_place_where_an_answer_comes_back_is_listed() -> None:
    files = [*(ROOT / "app" / "chat").rglob("*.py"), *(ROOT / "ui").rglob("*.py")]
    assert sorted(set(PLACES)) == sorted({place for path in files for place in asked_in(path)})


@each("place", PLACES)
def test_every_place_has_its_test(place: str) -> None:
    _counts_while, path, name = PLACES[place]
    assert name in functions_in(path)


@cache
def functions_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / path).read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_nothing_comes_back_by_another_way() -> None:
    """Who posts to the owner's thread by hand decides by hand what is late."""
    posts = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "app" / "chat").rglob("*.py")
        if "around.post(" in path.read_text("utf-8")
    }
    assert posts == {"app/chat/desk.py"}, "the state of the store, which is told as it changes"

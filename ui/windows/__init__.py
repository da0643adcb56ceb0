"""Windows and dialogs beside the main one: export, import, presets, trash."""

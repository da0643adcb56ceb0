"""Widgets that know nothing of the chat: buttons, fields, sliders, layouts, small helpers of Qt."""

"""The panel *Prompt*: the prompt as the engine was given it, token by token and by its parts."""

"""*Follow one token*: eight chapters through the pipeline, and the glossary.

Texts are data (`resources/tour/`), figures are facts that were measured for the token that is
looked at. What must hold: a sentence whose fact isn't known is not said, and texts hold no numbers.
"""

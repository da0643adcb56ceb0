"""The panel *Sampling*: the chain as it is set, and what each stage did to the chosen token."""

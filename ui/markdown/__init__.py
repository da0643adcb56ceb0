"""The blocks of `app/markdown` on screen: `layouts` and its neighbours turn them into something
that paints and can be selected."""

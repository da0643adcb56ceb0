"""The right column: panels that look into the reply that is chosen."""

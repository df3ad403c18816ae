"""`muster.function`: user code traced once and called again and again."""

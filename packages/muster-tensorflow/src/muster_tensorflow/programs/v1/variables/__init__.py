"""Variables that code finds by name, their initializers and their parts."""

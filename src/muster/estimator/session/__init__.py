"""The session that hooks read: variables, outputs of the last step, the global step."""

"""Export models: their inputs, signatures and folder."""

"""Exporting models: what they will be given, what they answer, and the folder that they are saved in."""

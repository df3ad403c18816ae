"""Sound, images and messages in files, and downloads."""

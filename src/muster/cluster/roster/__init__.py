"""The roster: which tasks of the job are up, and how they are."""

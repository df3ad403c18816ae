"""Tables of what tests take, from the lines that durations.py records."""

"""The terminal front end: the REPL and what it shows."""

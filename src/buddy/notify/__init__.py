"""Calls a person who is not looking: a session needs them, or has finished."""

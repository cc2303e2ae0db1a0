"""Measures Buddy, its floors and its peers at one and the same work: `python -m bench --help`."""

"""Benchmarks Buddy, its baselines and its peers on the same tasks: `python -m bench --help`."""

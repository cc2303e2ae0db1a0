"""A package, so that tests import each other's helpers as `tests.…` and clash with no other module."""

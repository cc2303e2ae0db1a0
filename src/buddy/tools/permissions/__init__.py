"""Permission rules: what may run without asking, what must be asked, what must not run."""

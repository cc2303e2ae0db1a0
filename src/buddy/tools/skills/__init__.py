"""Texts that people prepare for models: skills, which a model or a person activates, and slash commands."""

"""Commands in a shared pane that people can watch and take over."""

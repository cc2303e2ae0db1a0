"""The console: static files that the daemon serves, and that speak the protocol. There is no Python here."""

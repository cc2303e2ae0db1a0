"""Buddy as an agent for editors: the Agent Client Protocol on stdin and stdout, as a client of the daemon."""

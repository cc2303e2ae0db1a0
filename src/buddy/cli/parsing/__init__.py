"""What each command takes, and which function runs it; nothing here loads what a command needs."""

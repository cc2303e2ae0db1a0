"""What a shell command says, read without running it."""

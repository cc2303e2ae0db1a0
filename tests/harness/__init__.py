"""What the tests share: runtimes, clients, models, processes and terminals, one noun per module."""

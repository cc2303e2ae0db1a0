"""What grows, one module each: its data is built in bulk at 1, 10 and 100 times the size, and its work measured."""

"""People's scripts at set points of a session, in the shape that scripts for other agents already have."""

"""Login with a person's account: tokens instead of a key."""

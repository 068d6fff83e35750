"""What a text says and how it looks, measured the same way for every script. Pure, and computed on whole arrays."""

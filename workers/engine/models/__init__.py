"""Where models come from: the packaged one, local directories, and what must be true before one serves."""

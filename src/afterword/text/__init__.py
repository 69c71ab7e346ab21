"""From the bytes of tokens to the text a client may see. Pure: imports nothing else of the package."""

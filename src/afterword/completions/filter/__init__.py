"""The operator's content filter: what may not leave the server, found in texts that grow (SPEC section 8)."""

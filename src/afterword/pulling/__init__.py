"""Models from elsewhere: from a model hub or an address to files on this machine."""

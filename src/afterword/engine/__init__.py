"""What every engine fulfils: requests in, events out. Engines know no HTTP and no API field names."""

"""Raw files as typed rows: found, cut into blocks, read, and set aside where they are broken."""

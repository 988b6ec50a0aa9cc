"""What a source spec is: its dataclasses, the reader of its TOML files, and the check of the whole."""

"""A store's files: where they lie, how a shard is written and read, checksums, identities, and what a table holds."""

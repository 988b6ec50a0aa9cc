"""Ingest: rows spread over buckets, then finished shard by shard with clocks, identities and labels."""

"""Tasks: what is asked (benchmarks), how it is answered (answers), what an answer is worth (scoring)."""

"""Tasks: questions (benchmarks), kinds of answers (answers) and scores (scoring)."""

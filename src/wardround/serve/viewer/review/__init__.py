"""Blinded review: people mark episodes without knowing the contender or the score; marks are kept beside the run."""

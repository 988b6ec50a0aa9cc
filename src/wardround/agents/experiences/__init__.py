"""Experiences out of a bank: fetched before the first turn, and as text for a prompt."""

"""Scoring: set scores, Best@K, statistics over patients, the error taxonomy, tables.

Nothing here runs an agent or reads a chart; it reads samples, answers and logs.
"""

from wardround.scoring.sets import SetScore, best_at_k, set_scores

__all__ = ["SetScore", "best_at_k", "set_scores"]

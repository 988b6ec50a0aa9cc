"""Blinded review: people mark episodes without knowing who played or what it scored; marks lie beside the run."""

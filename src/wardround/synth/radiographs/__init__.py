"""Invented chest radiographs, drawn from the examinations that the hospital's notes report: picture, report and labels
say one thing. Tables need nothing; drawing needs NumPy, writing DICOM files the extra ``[imaging]``.
"""

from wardround.synth.radiographs.films import write_films
from wardround.synth.radiographs.phantom import Box, Phantom, SeenFinding, draw_phantom, findings_of, labels_of

__all__ = ["Box", "Phantom", "SeenFinding", "draw_phantom", "findings_of", "labels_of", "write_films"]

"""Imaging: radiographs of a chart, from a file or an image server to pixels, pictures and findings.

Knows charts and image files; no model of language and no task. The libraries behind it are the extra ``[imaging]`` and
are imported when the first image is opened.
"""

from wardround.tools.imaging.networks import Abilities, ImageSettings
from wardround.tools.imaging.radiograph import GreyWindow, Radiograph
from wardround.tools.imaging.reading import picture_of, read_radiograph
from wardround.tools.imaging.reports import conflicts_of, mentions_of
from wardround.tools.imaging.source import ChartImage, ChartImages, ImageFolder, ImageSource, Imaging, open_images

__all__ = [
    "Abilities",
    "ChartImage",
    "ChartImages",
    "GreyWindow",
    "ImageFolder",
    "ImageSettings",
    "ImageSource",
    "Imaging",
    "Radiograph",
    "conflicts_of",
    "mentions_of",
    "open_images",
    "picture_of",
    "read_radiograph",
]

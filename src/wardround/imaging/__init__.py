"""Imaging: radiographs of a chart, from a file or an image server to pixels, pictures and findings.

Knows charts and image files; no model of language and no task. The libraries behind it are the extra ``[imaging]`` and
are imported when the first image is opened.
"""

from wardround.imaging.networks import Abilities
from wardround.imaging.opening import Imaging, open_images
from wardround.imaging.radiograph import Radiograph
from wardround.imaging.reading import LONGEST_EDGE, picture_of, read_radiograph
from wardround.imaging.reports import conflicts_of, mentions_of
from wardround.imaging.settings import ImageSettings
from wardround.imaging.source import ChartImage, ChartImages, ImageFolder, ImageSource
from wardround.imaging.windows import GreyWindow

__all__ = [
    "LONGEST_EDGE",
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

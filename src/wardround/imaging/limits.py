"""How large an image may be. What a header claims is looked at before a decoder sees the file."""

from __future__ import annotations

from wardround.core import ToolFailure

MOST_PIXELS = 40_000_000
"""Of one frame. The largest mammograms have about 28 million."""
MOST_FRAMES = 4_096


def check_size(height: int, width: int, frames: int = 1) -> None:
    """ToolFailure: there are no pixels, or too many to be opened."""
    if height < 1 or width < 1:
        raise ToolFailure(f"the file of this image says that it has {height} x {width} pixels; it is damaged.")
    if height * width > MOST_PIXELS:
        raise ToolFailure(f"this image has {height:,} x {width:,} pixels, more than {MOST_PIXELS:,}; it is not opened.")
    if frames > MOST_FRAMES:
        raise ToolFailure(f"this image has {frames:,} frames, more than {MOST_FRAMES:,}; it is not opened.")

"""Tools that look at images: what they take is a handle, the row id of an image on this chart, never a path."""

from __future__ import annotations

from typing import Annotated

from wardround.core import format_time
from wardround.imaging import ChartImage, GreyWindow, Radiograph, picture_of
from wardround.tools.result import ToolResult
from wardround.tools.session import Session
from wardround.tools.signature import Range, tool

Handle = Annotated[str, "Handle of an image on this chart: the row id of its row, such as cxr_images:02aa804e."]
FrameNumber = Annotated[int, Range(1), "Which frame, from 1 on."]


@tool("image", name="image.dicom_processor")
def dicom_processor(
    session: Session,
    *,
    dicom_path: Handle,
    window_center: Annotated[float | None, "Middle of another window, in the values of the image."] = None,
    window_width: Annotated[float | None, Range(1), "Width of that window."] = None,
    frame: FrameNumber = 1,
) -> ToolResult:
    """Show a DICOM image as its file wants it seen, or through another window, and tell what its header says of how it
    was taken."""
    entry = session.images.find(dicom_path)
    window = None
    if window_center is not None and window_width is not None:
        window = GreyWindow(center=window_center, width=window_width)
    film = session.images.open(entry, window=window, frame=frame)
    told = [f"{name}: {value}" for name, value in film.tags.items()]
    return _shown(session, entry, film, [f"window: {film.window}", *told])


@tool("image", name="image.image_visualizer")
def image_visualizer(
    session: Session,
    *,
    image_path: Handle,
    title: Annotated[str, "What to call the picture."] = "",
    frame: FrameNumber = 1,
) -> ToolResult:
    """Show an image of this chart."""
    entry = session.images.find(image_path)
    return _shown(session, entry, session.images.open(entry, frame=frame), [], title=title)


def _shown(session: Session, entry: ChartImage, film: Radiograph, lines: list[str], *, title: str = "") -> ToolResult:
    """Return a picture of a film with what is known of it; its row has been read."""
    picture = picture_of(
        film.pixels, title.strip()[:120] or entry.handle, longest_edge=session.images.settings.longest_edge
    )
    smaller = "" if picture.width == film.width else f", shown in {picture.height} x {picture.width}"
    size = f"{film.height} x {film.width} pixels{smaller}"
    head = ", ".join(part for part in (said(entry), size) if part)
    remarks = [f"mind: {remark}" for remark in film.remarks]
    text = "\n".join((head, *lines, *remarks, "The picture comes with this result."))
    return ToolResult(text=text, pictures=(picture,), row_ids=(entry.handle,), table=entry.handle.partition(":")[0])


def said(entry: ChartImage) -> str:
    """Return what an image is, in a line: handle, view and when it was taken."""
    view = f"view {entry.view}" if entry.view else ""
    taken = f"taken {format_time(entry.taken)}" if entry.taken is not None else ""
    return ", ".join(part for part in (entry.handle, view, taken) if part)

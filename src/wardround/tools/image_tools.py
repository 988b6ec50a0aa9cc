"""Tools that look at images and name findings, organs and phrases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from wardround.core import Picture, ToolFailure, format_time
from wardround.core.errors import nearest, unknown
from wardround.tools.definition import Range, tool
from wardround.tools.imaging import ChartImage, GreyWindow, Radiograph, conflicts_of, mentions_of, picture_of
from wardround.tools.imaging.classification import ClassifiedFinding, classify
from wardround.tools.imaging.networks import SegmentedOrgan, cardiothoracic_ratio, segment, with_edges
from wardround.tools.imaging.reading import MiddleSquare, Outline, pixels_of
from wardround.tools.imaging.weights import KnownModel
from wardround.tools.session import Session, ToolResult

# Tools that look at images: what they take is a handle, the row id of an image on this chart, never a path.


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
    tag_lines = [f"{name}: {value}" for name, value in film.tags.items()]
    return _shown(session, entry, film, [f"window: {film.window}", *tag_lines])


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
    """Return a picture of a film with its facts; mark its row as read."""
    picture = picture_of(
        film.pixels, title.strip()[:120] or entry.handle, longest_edge=session.images.settings.longest_edge
    )
    smaller = "" if picture.width == film.width else f", shown in {picture.height} x {picture.width}"
    size = f"{film.height} x {film.width} pixels{smaller}"
    head = ", ".join(part for part in (image_line(entry), size) if part)
    remarks = [f"mind: {remark}" for remark in film.remarks]
    text = "\n".join((head, *lines, *remarks, "The picture comes with this result."))
    return ToolResult(text=text, pictures=(picture,), row_ids=(entry.handle,), table=entry.handle.partition(":")[0])


def image_line(entry: ChartImage) -> str:
    """Return the description of an image in a line: handle, view and time."""
    view = f"view {entry.view}" if entry.view else ""
    taken_text = f"taken {format_time(entry.taken_at)}" if entry.taken_at is not None else ""
    return ", ".join(part for part in (entry.handle, view, taken_text) if part)


# Tools that make something out on chest films: findings, organs, a report, where a phrase is. Each says what its
# numbers are, and what they are not.


_NO_PROBABILITY = (
    "score: 0.50 is the point at which the network's authors call a finding; it is no probability, and scores of "
    "different findings do not compare"
)
_MOST_BOXES = 5
_FRONTAL = ("AP", "PA")


@tool("image", name="image.chest_xray_classifier", needs="classifier")
def chest_xray_classifier(session: Session, *, image_path: Handle) -> ToolResult:
    """Score the findings that a classifier was trained on, in a chest radiograph from the front: each with its
    operating point and, above it, with the box that its score comes from. Scores are no probabilities."""
    entry, film = _film(session, image_path)
    findings, known = _classified(session, film)
    lines = ["finding | score | above its operating point | box (left, top, right, bottom in pixels)"]
    for finding in findings:
        box = "" if finding.box is None else _pixels(finding.box, film)
        lines.append(f"{finding.name} | {finding.score:.2f} | {'yes' if finding.is_above else 'no'} | {box}")
    above = [finding for finding in findings if finding.is_above][:_MOST_BOXES]
    boxes = [finding.box for finding in above if finding.box is not None]
    head = [image_line(entry), _NO_PROBABILITY, _network_line(known), *_cautions(film)]
    picture = _picture(session, film, f"{entry.handle}: where the highest scores come from", boxes)
    return _result(entry, [*head, *lines], picture)


@tool("image", name="image.chest_xray_segmentation", needs="segmentation")
def chest_xray_segmentation(
    session: Session,
    *,
    image_path: Handle,
    organs: Annotated[list[str] | None, "Only these organs, such as Heart or Left Lung; leave out for all."] = None,
) -> ToolResult:
    """Outline organs in a chest radiograph from the front: area, place, and the cardiothoracic ratio. Left and right
    are the patient's own."""
    entry, film = _film(session, image_path)
    opened = session.images.abilities.needed_network("segmentation")
    wanted = [_organ_named(name, opened.known) for name in organs or ()]
    found = segment(film, opened.network, opened.known)
    shown = [organ for organ in found if not wanted or organ.name in wanted]
    ratio = cardiothoracic_ratio(found)
    lines = ["organ | area | certainty (mean inside) | box (left, top, right, bottom in pixels) | touches the edge"]
    lines += [_organ_line(organ, film) for organ in shown]
    size = "" if film.spacing_mm else "areas are in pixels: the file does not say how large a pixel is in the body"
    ratio_text = (
        f"cardiothoracic ratio: {ratio:.2f}" if ratio is not None else "cardiothoracic ratio: heart or lung not seen"
    )
    head = [image_line(entry), ratio_text, _network_line(opened.known), *_cautions(film), size]
    edges = with_edges(film.pixels, shown)
    picture = picture_of(edges, f"{entry.handle}: outlined organs", longest_edge=session.images.settings.longest_edge)
    return _result(entry, [*filter(None, head), *lines], picture)


@tool("image", name="image.chest_xray_report_generator", needs="report", reads_only=False)
def chest_xray_report_generator(session: Session, *, image_path: Handle) -> ToolResult:
    """Let a report model write findings and impression of a chest radiograph, with every contradiction between the
    two and with the classifier."""
    entry, film = _film(session, image_path)
    report = session.images.abilities.reports(session.ask_model).write(_picture(session, film, entry.handle, ()))
    classified = _classified(session, film)[0] if "classifier" in session.images.abilities.names else ()
    conflicts = conflicts_of(report, classified)
    lines = [
        image_line(entry),
        f"written by a model ({report.by}), read by nobody",
        *_cautions(film),
        f"FINDINGS: {report.findings or 'unavailable'}",
        f"IMPRESSION: {report.impression or 'unavailable'}",
        "CONFLICTS: " + ("; ".join(conflicts) if conflicts else "none found by a rule of thumb"),
    ]
    return _result(entry, lines, None)


@tool("image", name="image.xray_phrase_grounding", needs="grounding", reads_only=False)
def xray_phrase_grounding(
    session: Session,
    *,
    image_path: Handle,
    phrase: Annotated[str, "One finding in a few words, such as left pleural effusion."],
) -> ToolResult:
    """Find where in a chest radiograph a phrase is, as boxes."""
    entry, film = _film(session, image_path)
    finder = session.images.abilities.phrases(session.ask_model)
    boxes: Sequence[Outline]
    if finder is not None:
        boxes = finder.find(_picture(session, film, entry.handle, ()), phrase)
        how = f"boxes by a model ({finder.name}), checked by nobody"
    else:
        boxes, how = _from_classifier(session, film, phrase)
    lines = [image_line(entry), how, *_cautions(film), f"phrase: {' '.join(phrase.split())[:120]}"]
    lines += [f"box: {_pixels(box, film)} (left, top, right, bottom in pixels)" for box in boxes]
    lines += [] if boxes else ["not seen"]
    return _result(entry, lines, _picture(session, film, f"{entry.handle}: {phrase[:80]}", boxes))


def _film(session: Session, handle: str) -> tuple[ChartImage, Radiograph]:
    entry = session.images.find(handle)
    film = session.images.open(entry)
    view = film.view or entry.view
    if view and not view.upper().startswith(_FRONTAL):
        raise ToolFailure(f"{entry.handle} is a {view} view; this tool reads films from the front (AP or PA) only.")
    return entry, film


def _classified(session: Session, film: Radiograph) -> tuple[tuple[ClassifiedFinding, ...], KnownModel]:
    opened = session.images.abilities.needed_network("classifier")
    return classify(film, opened.network, opened.known), opened.known


def _from_classifier(session: Session, film: Radiograph, phrase: str) -> tuple[tuple[Outline, ...], str]:
    """Return the box of the finding that a phrase names, from the classifier's map. Raises ToolFailure if it names
    none."""
    findings, known = _classified(session, film)
    names = {finding.name: finding for finding in findings}
    named = list(mentions_of(phrase)) or nearest(phrase, names, limit=1)
    finding = next((names[name] for name in named if name in names), None)
    if finding is None:
        raise ToolFailure(f"only these findings can be found here: {', '.join(names)}.")
    how = (
        f"no grounding model is here: roughly where the classifier {known.name} gets its score of {finding.score:.2f} "
        f"for {finding.name} from"
    )
    return (() if finding.box is None else (finding.box,)), how


def _network_line(known: KnownModel) -> str:
    return f"network: {known.name}, trained on {', '.join(known.seen)}: on films of those its results prove little"


def _cautions(film: Radiograph) -> list[str]:
    left_out = MiddleSquare.of(film.height, film.width).left_out
    square = [f"the network saw the middle square only; {left_out:.0%} of the film lie outside"] if left_out else []
    return [f"mind: {remark}" for remark in (*film.remarks, *square)]


def _organ_line(organ: SegmentedOrgan, film: Radiograph) -> str:
    if organ.box is None:
        return f"{organ.name} | not seen | | |"
    size = f"{organ.area:,} pixels" + (f", {organ.area_cm2:.1f} cm2" if organ.area_cm2 is not None else "")
    edge = "yes" if organ.touches_border else "no"
    return f"{organ.name} | {size} | {organ.certainty:.2f} | {_pixels(organ.box, film)} | {edge}"


def _organ_named(name: str, known: KnownModel) -> str:
    folded = {label.casefold(): label for label in known.labels}
    found = folded.get(" ".join(name.split()).casefold())
    if found is None:
        raise ToolFailure(unknown("organ", name, known.labels))
    return found


def _pixels(box: Outline, film: Radiograph) -> str:
    return ", ".join(map(str, pixels_of(box, film.height, film.width)))


def _picture(session: Session, film: Radiograph, title: str, boxes: Sequence[Outline]) -> Picture:
    edge = session.images.settings.longest_edge
    return picture_of(film.pixels, title, longest_edge=edge, outlines=boxes)


def _result(entry: ChartImage, lines: Sequence[str], picture: Picture | None) -> ToolResult:
    table = entry.handle.partition(":")[0]
    pictures = () if picture is None else (picture,)
    return ToolResult(text="\n".join(lines), pictures=pictures, row_ids=(entry.handle,), table=table)

"""Classifier, segmentation, reports and phrases on phantoms, with networks whose answers are known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra [imaging]")
pytest.importorskip("pydicom", reason="needs the extra [imaging]")

from dicom_files import film, written
from known_networks import CLASSIFIER, SEGMENTATION, brightness_classifier, drawn_segmentation, handed_back
from test_pictures_on_their_way import first_film

from fake_server import FakeServer, text
from wardround.core import ToolFailure, UserError
from wardround.models import DataUseGuard
from wardround.records import Store
from wardround.synth.radiographs import SeenFinding, draw_phantom
from wardround.tools import Environment, EnvironmentOptions, ToolResult, default_toolset
from wardround.tools.imaging import Abilities, ChartImages, ImageSettings, conflicts_of, mentions_of, read_radiograph
from wardround.tools.imaging.classification import classify, peak_box, stretched
from wardround.tools.imaging.networks import cardiothoracic_ratio, segment
from wardround.tools.imaging.reading import MiddleSquare
from wardround.tools.imaging.reports import WrittenReport
from wardround.tools.imaging.weights import ModelStore, NeuralNetwork, find_known

IMAGE_TOOLS = (
    "image.dicom_processor",
    "image.image_visualizer",
    "image.chest_xray_classifier",
    "image.chest_xray_report_generator",
    "image.xray_phrase_grounding",
    "image.chest_xray_segmentation",
)
OPACITY = draw_phantom([SeenFinding("opacity", "right", 0.9), SeenFinding("large_heart", "both", 0.5)], seed=3)
ORGANS = {
    "Heart": OPACITY.masks["heart"],
    "Left Lung": OPACITY.masks["left_lung"],
    "Right Lung": OPACITY.masks["right_lung"],
}


class OneFile:
    """A source of one image."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, name: object) -> bytes:
        return self.data

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weights")
    store = ModelStore(folder / "store")
    store.add(CLASSIFIER, brightness_classifier(folder / "classifier.onnx", bias=0.6))
    store.add(SEGMENTATION, drawn_segmentation(folder / "segmentation.onnx", ORGANS))
    return folder / "store"


def environment(store: Store, data: bytes, settings: ImageSettings | None = None) -> Environment:
    row = first_film(store)
    chart = store.chart(row["subject_id"], row["acquired"])
    abilities = Abilities(settings, DataUseGuard(sensitivity="synthetic"))
    images = ChartImages(chart, OneFile(data), abilities=abilities)
    return Environment(chart, default_toolset(more=IMAGE_TOOLS), EnvironmentOptions(images=images))


def call(store: Store, tool: str, data: bytes, settings: ImageSettings | None = None, **more: Any) -> ToolResult:
    return environment(store, data, settings).call(tool, {"image_path": first_film(store)["row_id"], **more})


def opacity_file(spacing: list[float] | None = None) -> bytes:
    dataset = film(pixels=OPACITY.pixels)
    if spacing:
        dataset.PixelSpacing = spacing
    return written(dataset)


def test_a_score_is_stretched_round_its_operating_point() -> None:
    assert [stretched(raw, 0.2) for raw in (0.0, 0.1, 0.2, 0.6, 1.0)] == pytest.approx([0, 0.25, 0.5, 0.75, 1])


def test_a_tool_without_weights_is_listed_and_not_offered(film_store: Store, weights: Path) -> None:
    bare = environment(film_store, b"").toolset.names
    assert [name in bare for name in IMAGE_TOOLS] == [True, True, False, False, False, False]
    equipped = environment(film_store, b"", ImageSettings(models=str(weights))).toolset.names
    assert [name in equipped for name in IMAGE_TOOLS] == [True, True, True, False, True, True]


def test_scores_are_told_with_their_point_and_where_they_come_from(film_store: Store, weights: Path) -> None:
    shown = call(film_store, IMAGE_TOOLS[2], opacity_file(), ImageSettings(models=str(weights)))
    assert "no probability" in shown.text
    rows = [line.split(" | ") for line in shown.text.splitlines() if " | " in line][1:]
    assert rows[0][0] == "Lung Opacity"
    assert len(rows) == 18
    known = find_known(CLASSIFIER)
    mean = float(MiddleSquare.of(512, 512).cut(OPACITY.pixels.astype(np.float32) / 4095, 224).mean()) * 2 - 1
    raw = 1 / (1 + np.exp(-(mean + 0.6)))
    point = known.operating_points[known.labels.index("Lung Opacity")]
    assert float(rows[0][1]) == pytest.approx(1 - (1 - raw) / (2 * (1 - point)), abs=0.006)
    assert [row[2] for row in rows[1:]] == ["no"] * 17
    assert shown.pictures
    assert shown.row_ids == (first_film(film_store)["row_id"],)


def test_the_box_of_a_score_lies_on_what_was_drawn() -> None:
    maps = np.zeros((7, 7), np.float32)
    maps[4:6, 1:3], maps[0, 6] = 1.0, 0.9  # what is not joined to the peak is left out
    assert peak_box(maps) == pytest.approx((1 / 7, 4 / 7, 3 / 7, 6 / 7))
    drawn, empty = draw_phantom([SeenFinding("opacity", "right", 0.9)], seed=3), draw_phantom([], seed=3)
    raster = (drawn.pixels.astype(float) - empty.pixels)[:511, :511].reshape(7, 73, 7, 73).mean(axis=(1, 3))
    left, top, right, bottom = peak_box(raster.astype(np.float32))
    across, down = drawn.boxes["opacity right"].center
    assert left <= across <= right
    assert top <= down <= bottom


def test_a_haze_veils_both_lungs_and_thins_out_to_the_sides() -> None:
    hazy, empty = draw_phantom([SeenFinding("haze", "both", 0.3)], seed=3), draw_phantom([], seed=3)
    veil = hazy.pixels.astype(float) - empty.pixels
    assert set(hazy.boxes) == {"haze left", "haze right"}
    for side in ("left", "right"):
        box = hazy.boxes[f"haze {side}"]
        middle = int(256 * (box.top + box.bottom))
        rows = slice(middle - 20, middle + 20)
        lung = hazy.masks[f"{side}_lung"][rows]
        columns = np.nonzero(lung.all(axis=0))[0]
        across = [float(veil[rows, column].mean()) for column in columns]
        inner, outer = (across[0], across[-1]) if columns[0] > 256 else (across[-1], across[0])
        assert 0 < 2 * outer < inner, side
    assert not veil[~(hazy.masks["left_lung"] | hazy.masks["right_lung"])].any()


def test_a_tube_comes_down_the_windpipe_and_wires_lie_in_the_breast_bone() -> None:
    findings = [SeenFinding("tube", "both", 1.0), SeenFinding("wires", "both", 1.0)]
    drawn = draw_phantom(findings, seed=3)
    tube, wires = drawn.boxes["tube both"], drawn.boxes["wires both"]
    assert (tube.top, round(tube.bottom, 2)) == (0.0, 0.32)
    assert 0.3 <= wires.top < 0.36
    assert 0.62 < wires.bottom <= 0.71
    for box, half in ((tube, 0.006), (wires, 0.02)):
        assert 0.5 - half - 0.003 <= box.left < 0.5 < box.right <= 0.5 + half + 0.003
    metal = drawn.pixels > 3_700
    assert metal[: int(0.3 * 512), 256].all()
    assert not metal[int(0.33 * 512) : int(0.4 * 512), :240].any()


def test_a_box_found_in_the_middle_square_is_given_in_the_whole_film() -> None:
    wide = MiddleSquare.of(100, 300)
    assert (wide.left, wide.side, round(wide.left_out, 3)) == (100, 100, 0.667)
    assert wide.outline((0.0, 0.0, 1.0, 1.0)) == pytest.approx((1 / 3, 0.0, 2 / 3, 1.0))


def test_organs_are_measured_and_the_ratio_is_the_drawn_one(weights: Path) -> None:
    read = read_radiograph(opacity_file([0.5, 0.5]))
    found = segment(read, NeuralNetwork(weights / SEGMENTATION / "model.onnx"), find_known(SEGMENTATION))
    by_name = {organ.name: organ for organ in found}
    assert by_name["Heart"].area == int(OPACITY.masks["heart"].sum())
    assert by_name["Heart"].area_cm2 == pytest.approx(by_name["Heart"].area * 0.25 / 100)
    assert by_name["Heart"].certainty == pytest.approx(1 / (1 + np.exp(-10)), abs=1e-4)
    assert by_name["Spine"].box is None
    assert cardiothoracic_ratio(found) == pytest.approx(OPACITY.cardiothoracic_ratio, abs=1e-6)
    assert cardiothoracic_ratio([by_name["Heart"]]) is None


def test_a_film_comes_to_the_network_as_the_pictures_that_it_was_trained_on(tmp_path: Path) -> None:
    """Its three channels less their means, over their deviations (ImageNet's, of red, green and blue): a network that
    gives back what it gets is certain of a grey of 0.9 by the sigmoids of (0.9 - 0.485) / 0.229 = 1.8122,
    (0.9 - 0.456) / 0.224 = 1.9821 and (0.9 - 0.406) / 0.225 = 2.1956; of one of 0.42 by that of the last, 0.0622."""
    network = NeuralNetwork(handed_back(tmp_path / "back.onnx"))
    read = read_radiograph(opacity_file())
    for grey, certain in ((0.9, (0.85962, 0.87890, 0.89986)), (0.42, (0.0, 0.0, 0.51555))):
        plain = replace(read, pixels=np.full((512, 512), grey, np.float32))
        found = segment(plain, network, find_known(SEGMENTATION))
        assert [organ.certainty for organ in found[:3]] == pytest.approx(certain, abs=1e-4)
        assert [organ.area > 0 for organ in found[:3]] == [share > 0 for share in certain]


def test_areas_in_cm2_need_the_size_of_a_pixel(film_store: Store, weights: Path) -> None:
    settings = ImageSettings(models=str(weights))
    bare = call(film_store, IMAGE_TOOLS[5], opacity_file(), settings, organs=["heart"])
    assert "cm2" not in bare.text
    assert "areas are in pixels" in bare.text
    assert "Lung |" not in bare.text
    assert "cm2" in call(film_store, IMAGE_TOOLS[5], opacity_file([0.5, 0.5]), settings, organs=["heart"]).text
    wrong = call(film_store, IMAGE_TOOLS[5], opacity_file(), settings, organs=["hart"])
    assert wrong.is_error
    assert "Did you mean 'Heart'" in wrong.text


def test_films_from_the_side_are_refused(film_store: Store, weights: Path) -> None:
    dataset = film(pixels=OPACITY.pixels)
    dataset.ViewPosition = "LL"
    refused = call(film_store, IMAGE_TOOLS[2], written(dataset), ImageSettings(models=str(weights)))
    assert refused.is_error
    assert "from the front" in refused.text


def test_weights_of_other_outputs_are_never_read_as_findings(weights: Path) -> None:
    known = replace(find_known(CLASSIFIER), labels=("One",), operating_points=(0.5,))
    with pytest.raises(ToolFailure, match="do not give its 1 findings"):
        classify(read_radiograph(opacity_file()), NeuralNetwork(weights / CLASSIFIER / "model.onnx"), known)


def test_a_report_comes_with_its_contradictions(film_store: Store, weights: Path) -> None:
    report = {"findings": "No opacity is seen. Small left effusion.", "impression": "No effusion."}
    with FakeServer([text(json.dumps(report))]) as server:
        settings = ImageSettings(models=str(weights), report_model="openai/test-model", report_url=server.url)
        shown = call(film_store, IMAGE_TOOLS[3], opacity_file(), settings)
    sent = server.requests[-1].json["messages"][-1]["content"]
    assert [part["type"] for part in sent] == ["text", "text", "image_url"]
    assert "FINDINGS: No opacity is seen." in shown.text
    conflicts = shown.text.splitlines()[-1]
    assert "Effusion: the findings say present, the impression absent" in conflicts
    assert "Lung Opacity: the report says absent, the classifier's score" in conflicts


def test_an_endpoint_that_writes_no_report_is_one_line(film_store: Store) -> None:
    with FakeServer([text("A chest."), text("Sure!")]) as server:
        settings = ImageSettings(report_model="openai/test-model", report_url=server.url)
        shown = call(film_store, IMAGE_TOOLS[3], opacity_file(), settings)
    assert shown.is_error
    assert "gave no usable answer" in shown.text


def test_phrases_are_found_by_a_model_or_roughly_by_the_classifier(film_store: Store, weights: Path) -> None:
    boxes = {"boxes": [[0.1, 0.2, 0.3, 0.4], [0.9, 0.9, 0.1, 0.1]]}
    with FakeServer([text(json.dumps(boxes))]) as server:
        settings = ImageSettings(grounding_model="openai/test-model", grounding_url=server.url)
        shown = call(film_store, IMAGE_TOOLS[4], opacity_file(), settings, phrase="an opacity")
    assert [line for line in shown.text.splitlines() if line.startswith("box: ")] == [
        "box: 51, 102, 154, 205 (left, top, right, bottom in pixels)"
    ]
    rough = ImageSettings(models=str(weights))
    assert (
        "no grounding model is here" in call(film_store, IMAGE_TOOLS[4], opacity_file(), rough, phrase="opacity").text
    )
    unknown = call(film_store, IMAGE_TOOLS[4], opacity_file(), rough, phrase="a swallowed coin")
    assert "only these findings" in unknown.text


def test_images_of_real_records_go_to_no_other_machine() -> None:
    settings = ImageSettings(report_model="openai/m", report_url="https://api.example.org/v1")
    with pytest.raises(UserError, match="not on this machine"):
        Abilities(settings, DataUseGuard(sensitivity="credentialed")).check()


def test_what_a_sentence_says_of_a_finding() -> None:
    text_of = "Mild cardiomegaly. No pneumothorax or effusion. Possible pneumonia. Lungs are clear of consolidation."
    assert mentions_of(text_of) == {
        "Cardiomegaly": True,
        "Consolidation": False,
        "Effusion": False,
        "Pneumothorax": False,
    }
    assert conflicts_of(WrittenReport(findings=text_of, impression="No pneumothorax.", by="m")) == ()


def test_a_cited_film_supports_its_answer_once_it_was_looked_at(film_store: Store) -> None:
    session = environment(film_store, opacity_file())
    handle = first_film(film_store)["row_id"]

    def supports(answers: list[str]) -> list[bool]:
        (cited,) = session.check_evidence(answers, {"Lung Opacity": [handle]})
        return [cited.read, cited.supports]

    session.call("get_records_by_time", {"table_name": handle.partition(":")[0]})
    assert supports(["Lung Opacity"]) == [True, False], "its row was read, the film was not looked at"
    session.call("image.image_visualizer", {"image_path": handle})
    assert supports(["Lung Opacity"]) == [True, True]
    assert supports(["Edema"]) == [True, False], "not for an answer that was not given"

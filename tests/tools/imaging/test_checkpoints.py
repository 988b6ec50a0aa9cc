"""Report writers from checkpoints in the real format: made here, tiny and of random weights. They need torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL", reason="needs the extra [imaging]")

from wardround.core import UserError
from wardround.tools.imaging import Abilities, ImageSettings, picture_of
from wardround.tools.imaging.weights import ModelStore

FINDINGS = "chexpert-mimic-cxr-findings"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vision-encoder-decoder of a few thousand numbers, saved as such models are."""
    transformers = pytest.importorskip("transformers", reason="needs transformers and torch")
    folder = tmp_path_factory.mktemp("checkpoint") / "tiny-findings"
    folder.mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "heart", "lungs", "clear", "."]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    encoder = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=32, patch_size=16
    )
    decoder = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        is_decoder=True,
        add_cross_attention=True,
    )
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id, config.pad_token_id = 2, 0
    transformers.VisionEncoderDecoderModel(config=config).save_pretrained(folder)
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    transformers.ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_checkpoint_writes_its_part_of_a_report(checkpoint: Path, tmp_path: Path) -> None:
    store = ModelStore(tmp_path / "store")
    store.add(FINDINGS, checkpoint)
    found = store.find(FINDINGS)
    assert found is not None
    assert store.verify(found) == ""
    abilities = Abilities(ImageSettings(models=str(tmp_path / "store")))
    assert abilities.names == {"report"}
    picture = picture_of(np.zeros((40, 40), np.float32), "a film")
    report = abilities.reports().write(picture)
    assert report == abilities.reports().write(picture)
    assert set(report.findings.replace(".", " ").split()) <= {"heart", "lungs", "clear", "[UNK]", "[MASK]"}
    assert (report.impression, report.by) == ("", "findings by tiny-findings")
    (checkpoint / "config.json").write_text("{}")
    assert store.verify(found) == "its files have changed"


def test_weights_that_are_pickles_are_not_taken(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(UserError, match="pickles and are not read"):
        ModelStore(tmp_path / "store").add(FINDINGS, tmp_path)

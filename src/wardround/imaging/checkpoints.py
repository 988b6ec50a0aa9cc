"""Report writers from checkpoints on this machine: two vision-encoder-decoder models, one for each part of a report.

They need `transformers` and `torch`, as nothing else here does; both are imported with the first report.
Weights are safetensors: no code of theirs is run.
"""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

from wardround.core import Picture, ToolFailure
from wardround.imaging.libraries import needed
from wardround.imaging.reports import WrittenReport

_LONGEST_TOKENS = 160


class CheckpointReports:
    """Writes findings and impression with one checkpoint each; a part whose checkpoint is not here stays empty."""

    def __init__(self, *, findings: Path | None, impression: Path | None) -> None:
        self._folders = {"findings": findings, "impression": impression}
        self._opened: dict[str, tuple[Any, Any, Any]] = {}
        self._opening = threading.Lock()

    def write(self, picture: Picture) -> WrittenReport:
        """Run both."""
        parts = {part: self._part(part, picture) for part in self._folders}
        by = "; ".join(f"{part} by {folder.name}" for part, folder in self._folders.items() if folder is not None)
        return WrittenReport(findings=parts["findings"], impression=parts["impression"], by=by)

    def _part(self, part: str, picture: Picture) -> str:
        folder = self._folders[part]
        if folder is None:
            return ""
        with self._opening:
            if part not in self._opened:
                self._opened[part] = _open(folder)
            model, processor, tokenizer = self._opened[part]
            return _written(model, processor, tokenizer, picture)


def _open(folder: Path) -> tuple[Any, Any, Any]:
    try:
        transformers = needed("transformers")
        model = transformers.VisionEncoderDecoderModel.from_pretrained(
            str(folder), local_files_only=True, use_safetensors=True, trust_remote_code=False
        )
        processor = transformers.AutoImageProcessor.from_pretrained(str(folder), local_files_only=True)
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:  # foreign checkpoints can fail in any way
        raise ToolFailure(f"the checkpoint {folder.name} cannot be opened ({type(error).__name__}).") from error
    return model.eval(), processor, tokenizer


def _written(model: Any, processor: Any, tokenizer: Any, picture: Picture) -> str:
    torch = needed("torch")
    with needed("PIL.Image").open(io.BytesIO(picture.data)) as image:
        pixels = processor(images=image.convert("RGB"), return_tensors="pt").pixel_values
    start = next((one for one in (tokenizer.cls_token_id, tokenizer.bos_token_id) if one is not None), 0)
    with torch.inference_mode():
        ids = model.generate(
            pixels, max_new_tokens=_LONGEST_TOKENS, num_beams=1, do_sample=False, decoder_start_token_id=start
        )
    return str(tokenizer.decode(ids[0], skip_special_tokens=True)).strip()

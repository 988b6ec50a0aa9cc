"""Base weights, and trained weights as GGUF."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardround.core import UserError, import_extra

# Weights to begin with: a folder of the package transformers, or one GGUF file, whose numbers are de-quantised.


GGUF = ".gguf"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseWeights:
    """A folder or file of weights. Nothing is downloaded: any other name is refused."""

    path: Path

    def __post_init__(self) -> None:
        if not self.path.exists():
            raise UserError(f"{str(self.path)!r} is not here; give a folder with config.json, or a .gguf file")
        if self.path.is_dir() and not (self.path / "config.json").is_file():
            raise UserError(f"{str(self.path)!r} holds no config.json; give the folder of a model, or a .gguf file")
        if self.path.is_file() and self.path.suffix != GGUF:
            raise UserError(f"{str(self.path)!r} is no .gguf file; give one, or the folder of a model")

    @property
    def is_gguf(self) -> bool:
        """Whether the weights are one file of quantised weights."""
        return self.path.suffix == GGUF

    def tokenizer(self) -> Any:
        """Open the tokenizer in the folder of the weights."""
        return needed("transformers").AutoTokenizer.from_pretrained(**self._place())

    def model(self) -> Any:
        """Open the model in single precision, for training. Code beside the weights is never run."""
        torch, transformers = needed("torch"), needed("transformers")
        model = transformers.AutoModelForCausalLM.from_pretrained(**self._place(), dtype=torch.float32)
        return _plain(model) if self.is_gguf else model

    def _place(self) -> dict[str, Any]:
        plain = {"local_files_only": True, "trust_remote_code": False}
        if self.is_gguf:
            return {"pretrained_model_name_or_path": str(self.path.parent), "gguf_file": self.path.name, **plain}
        return {"pretrained_model_name_or_path": str(self.path), "use_safetensors": True, **plain}


def _plain(model: Any) -> Any:
    """The same numbers in a model that does not say it is quantised: trainers refuse those that do."""
    settings = model.config.to_dict()
    settings.pop("quantization_config", None)
    plain = type(model)(type(model.config).from_dict(settings))
    plain.load_state_dict(model.state_dict())
    return plain


def needed(package: str) -> Any:
    """Import a package of the extra [train]. UserError names the install command."""
    return import_extra(package, "train", what="training")


# Trained weights as one GGUF file: the facts and the tokenizer of the file they began with, its tensors replaced.
#
# Only the architecture ``llama`` is written (SmolLM2 is of it). Its query and key rows stand in another order there:
# the two halves of each head's rotation, which transformers keeps apart, alternate.


ARCHITECTURE = "llama"
_TEMPLATE = "tokenizer.chat_template"
_WRITTEN_HERE = frozenset({"general.architecture", "general.file_type", "general.quantization_version", _TEMPLATE})


def write_gguf(base: Path, weights: Mapping[str, NDArray[np.float32]], template: str, out: Path) -> None:
    """Write weights (by their names in transformers) beside the facts of ``base``: matrices as half precision.

    ``template`` is the chat template for serving. Raises UserError: another architecture, or a tensor that is missing.
    """
    gguf = needed("gguf")
    reader = gguf.GGUFReader(base)
    architecture = reader.fields["general.architecture"].contents()
    if architecture != ARCHITECTURE:
        raise UserError(f"a GGUF file of architecture {architecture!r} cannot be written yet; serve the model's folder")
    writer = gguf.GGUFWriter(out, ARCHITECTURE)
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name not in _WRITTEN_HERE:
            kind = field.types[0]
            inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), kind, sub_type=inner)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_chat_template(template)
    for name, weight in _in_its_order(gguf, reader, weights):
        writer.add_tensor(name, _half(weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_model(base: BaseWeights, model: Any, template: str, out: Path) -> None:
    """Write a model that began as ``base``; the base itself, too, to compare a trained one with on equal terms."""
    weights = {name: value.detach().float().cpu().numpy() for name, value in model.state_dict().items()}
    write_gguf(base.path, weights, template, out)


def _in_its_order(
    gguf: Any, reader: Any, weights: Mapping[str, NDArray[np.float32]]
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield the file's tensors by name, with the trained numbers in them."""

    def fact(what: str) -> int:
        return int(reader.fields[f"{ARCHITECTURE}.{what}"].contents())

    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, fact("block_count"))
    trained = {names.get_name(name, try_suffixes=(".weight", ".bias")): weight for name, weight in weights.items()}
    heads = {".attn_q.": fact("attention.head_count"), ".attn_k.": fact("attention.head_count_kv")}
    for tensor in reader.tensors:
        if tensor.name not in trained:
            raise UserError(f"the trained weights hold no {tensor.name!r}; are they of another model than the base?")
        weight = np.asarray(trained[tensor.name], dtype=np.float32)
        rotated = next((count for part, count in heads.items() if part in tensor.name), None)
        yield tensor.name, weight if rotated is None else interleaved(weight, rotated)


def interleaved(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Return the rows of ``heads`` heads with the two halves of each alternating: 0, n/2, 1, n/2 + 1, ..."""
    half = weight.shape[0] // heads // 2
    return weight.reshape(heads, 2, half, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def _half(weight: NDArray[np.float32]) -> NDArray[Any]:
    """Matrices take half the place; norms stay exact, as llama.cpp wants them."""
    return weight if weight.ndim == 1 else weight.astype(np.float16)

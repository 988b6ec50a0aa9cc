"""Weights to begin with: a folder of the package transformers, or one GGUF file, whose numbers are de-quantised."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wardround.core import UserError, import_extra

GGUF = ".gguf"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseWeights:
    """Where weights lie. Nothing is fetched: a name that is no folder and no file is refused."""

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
        """Whether it is one file of quantised weights."""
        return self.path.suffix == GGUF

    def tokenizer(self) -> Any:
        """Open the tokenizer that lies with the weights."""
        return needed("transformers").AutoTokenizer.from_pretrained(**self._place())

    def model(self) -> Any:
        """Open the model in single precision, for training. No code that lies with the weights is run."""
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
    """Import a package of the extra [train]; UserError says how to get it."""
    return import_extra(package, "train", what="training")

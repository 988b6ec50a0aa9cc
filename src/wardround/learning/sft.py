"""Supervised fine-tuning: a model learns the replies of rows, and nothing else in them (package trl).

What is made is a folder: ``model/`` (weights, tokenizer, template for serving), ``checkpoints/`` to resume from,
``training.json`` (recipe, what was read, the loss of every update), and ``model.gguf`` where the base was such a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wardround.core import Reporter, UserError, content_hash, must_be_new, private_folder, silent, write_atomically
from wardround.learning.recipe import SftSettings, TrainingRecipe, reporting
from wardround.learning.rows import RowTokenizer, TokenRow, TrainingRow, serving_template
from wardround.learning.weights import BaseWeights, needed, write_model

_NOT_LEARNT = -100
"""The label that the loss ignores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SftResult:
    """What a fine-tuning did. ``losses`` are of every update; ``rows_dropped`` were longer than the recipe's most.

    ``rows_with_pictures`` were left out: training reads text alone. ``validation_losses`` are over the rows of people
    who teach nothing, before the first update and after each epoch; empty without such people.
    """

    rows: int
    rows_dropped: int
    rows_with_pictures: int
    validation_rows: int
    tokens: int
    learnt_tokens: int
    updates: int
    losses: tuple[float, ...]
    validation_losses: tuple[float, ...]

    def as_text(self) -> str:
        """Return what was read and learnt, the losses last."""
        lines = [
            f"{self.updates:,} updates over {self.rows:,} rows, {self.learnt_tokens:,} of {self.tokens:,} tokens learnt"
        ]
        if self.rows_dropped:
            lines.append(f"dropped: {self.rows_dropped:,} rows too long")
        if self.rows_with_pictures:
            lines.append(f"left out: {self.rows_with_pictures:,} rows with pictures, because training reads text alone")
        if self.validation_losses:
            of_others = f"{self.validation_rows:,} rows of other people"
            lines.append(f"validation: loss {_first_and_last(self.validation_losses)}, {of_others}")
        else:
            lines.append("validation: none (rows of one person alone, or sft.validation_share=0)")
        return "\n".join([*lines, f"loss {_first_and_last(self.losses)}"])


def _first_and_last(losses: Sequence[float]) -> str:
    return f"{losses[0]:.3f} at first, {losses[-1]:.3f} at last"


def fine_tune(
    base: BaseWeights,
    rows: Sequence[TrainingRow],
    template: str,
    recipe: TrainingRecipe,
    out: Path,
    *,
    resume: bool = False,
    report: Reporter = silent,
) -> SftResult:
    """Train on rows and write the folder ``out``; ``resume`` goes on from its last checkpoint.

    Raises UserError: nothing to learn, a folder that holds something, or one begun with another recipe or other rows.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    what = _what(base, rows, template, recipe)
    _open_folder(out, what, resume)
    row_tokenizer = RowTokenizer(tokenizer=base.tokenizer(), template=template)
    read = [row for row in rows if not row.has_pictures]
    teaching, validating = split_by_person(read, recipe.sft.validation_share, recipe.sft.seed)
    most = recipe.data.max_tokens
    fitting, validation = (
        [row for row in map(row_tokenizer.encode, part) if most is None or len(row.ids) <= most]
        for part in (teaching, validating)
    )
    if not any(sum(row.mask) for row in fitting):
        within = "" if most is None else f" within {most} tokens"
        pictures = f"; {len(rows) - len(read)} with pictures left out" if len(read) < len(rows) else ""
        raise UserError(f"none of {len(rows)} rows holds anything to learn{within}{pictures}")
    trainer = _trainer(base.model(), row_tokenizer.tokenizer, fitting, validation, recipe.sft, out)
    trainer.add_callback(reporting(report, unit="updates"))
    trainer.train(resume_from_checkpoint=resume and _has_checkpoint(out))
    _save(trainer, row_tokenizer.tokenizer, base, serving_template(template), out)
    done = SftResult(
        rows=len(fitting),
        rows_dropped=len(read) - len(fitting) - len(validation),
        rows_with_pictures=len(rows) - len(read),
        validation_rows=len(validation),
        tokens=sum(len(row.ids) for row in fitting),
        learnt_tokens=sum(sum(row.mask) for row in fitting),
        updates=trainer.state.global_step,
        losses=_logged(trainer, "loss"),
        validation_losses=_logged(trainer, "eval_loss"),
    )
    write_atomically(out / "training.json", json.dumps({**what, "done": asdict(done)}, indent=2) + "\n")
    return done


def split_by_person(
    rows: Sequence[TrainingRow], share: float, seed: int
) -> tuple[list[TrainingRow], list[TrainingRow]]:
    """Return the rows that teach and the rows of the people who are kept for validation, drawn by the seed.

    At least one person where ``share`` is above 0, but never the only one. Rows of nobody known teach.
    """
    people = {row.about["subject_id"] for row in rows if row.about.get("subject_id") is not None}
    wanted = max(1, round(share * len(people))) if share and len(people) > 1 else 0
    drawn = set(sorted(people, key=lambda person: content_hash([seed, person]))[:wanted])
    kept = [row.about.get("subject_id") in drawn for row in rows]
    return (
        [row for row, is_kept in zip(rows, kept, strict=True) if not is_kept],
        [row for row, is_kept in zip(rows, kept, strict=True) if is_kept],
    )


def _logged(trainer: Any, name: str) -> tuple[float, ...]:
    return tuple(entry[name] for entry in trainer.state.log_history if name in entry)


def _what(base: BaseWeights, rows: Sequence[TrainingRow], template: str, recipe: TrainingRecipe) -> dict[str, Any]:
    return {
        "schema": 1,
        "base": base.path.name,
        "rows_sha256": content_hash([row.to_json() for row in rows]),
        "template_sha256": content_hash(template),
        "recipe": recipe.to_json(),
    }


def _open_folder(out: Path, what: dict[str, Any], resume: bool) -> None:
    begun = out / "begun.json"
    if not resume:
        must_be_new(out, otherwise="go on with --resume, or choose another one")
        private_folder(out)
        write_atomically(begun, json.dumps(what, indent=2) + "\n")
        return
    if not begun.is_file():
        raise UserError(f"no training was begun in {str(out)!r}")
    earlier = json.loads(begun.read_text(encoding="utf-8"))
    changed = [name for name in what if earlier.get(name) != json.loads(json.dumps(what[name]))]
    if changed:
        raise UserError(f"{str(out)!r} was begun with another {', '.join(changed)}; give the same, or another --out")


def _has_checkpoint(out: Path) -> bool:
    return any((out / "checkpoints").glob("checkpoint-*"))


def _trainer(
    model: Any,
    tokenizer: Any,
    rows: Sequence[TokenRow],
    validation: Sequence[TokenRow],
    settings: SftSettings,
    out: Path,
) -> Any:
    trl = needed("trl")
    if settings.adapter == "lora":
        model = needed("peft").get_peft_model(model, _adapters(settings))
    arguments = trl.SFTConfig(
        output_dir=str(out / "checkpoints"),
        num_train_epochs=settings.epochs,
        max_steps=settings.most_steps or -1,
        per_device_train_batch_size=settings.rows_at_once,
        per_device_eval_batch_size=settings.rows_at_once,
        eval_strategy="epoch" if validation else "no",
        eval_on_start=bool(validation),
        prediction_loss_only=True,
        gradient_accumulation_steps=settings.batch // settings.rows_at_once,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr": settings.last_learning_rate},
        warmup_steps=settings.warmup_steps,
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.clip,
        bf16=settings.precision == "bf16",
        seed=settings.seed,
        data_seed=settings.seed,
        gradient_checkpointing=settings.recompute,
        save_steps=settings.save_steps,
        save_total_limit=2,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        use_cpu=not needed("torch").cuda.is_available(),
        max_length=None,
        dataset_kwargs={"skip_prepare_dataset": True},
    )
    return trl.SFTTrainer(
        model=model,
        args=arguments,
        train_dataset=_data_set(rows),
        eval_dataset=_data_set(validation) if validation else None,
        processing_class=tokenizer,
    )


def _data_set(rows: Sequence[TokenRow]) -> Any:
    return needed("datasets").Dataset.from_list(
        [{"input_ids": list(row.ids), "labels": labels_of(row)} for row in rows]
    )


def labels_of(row: TokenRow) -> list[int]:
    """Return the labels of the loss: the learnt tokens, and the ignore label elsewhere."""
    return [token if learnt else _NOT_LEARNT for token, learnt in zip(row.ids, row.mask, strict=True)]


def _adapters(settings: SftSettings) -> Any:
    return needed("peft").LoraConfig(
        r=settings.rank,
        lora_alpha=settings.adapter_scale,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )


def _save(trainer: Any, tokenizer: Any, base: BaseWeights, template: str, out: Path) -> None:
    """Merge adapters into one model for serving."""
    model = trainer.model
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    tokenizer.chat_template = template
    tokenizer.save_pretrained(out / "model")
    model.save_pretrained(out / "model", safe_serialization=True)
    if base.is_gguf:
        write_model(base, model, template, out / "model.gguf")

"""A cohort of es-aces on a MEDS data set: death in hospital after the first 48 hours, asked 24 hours after admission.

Run in the environment of es-aces: python aces_mortality.py MEDS OUT. Writes OUT/cohort.parquet.
"""

import sys
from pathlib import Path

import polars as pl
from aces import config, predicates, query
from omegaconf import DictConfig

TASK = """
predicates:
  admission: { code: { regex: "^HOSPITAL_ADMISSION//.*" } }
  discharge: { code: { regex: "^HOSPITAL_DISCHARGE//.*" } }
  death: { code: MEDS_DEATH }
  discharge_or_death: { expr: "or(discharge, death)" }
trigger: admission
windows:
  input:
    start: null
    end: trigger + 24h
    start_inclusive: true
    end_inclusive: true
    index_timestamp: end
  gap:
    start: trigger
    end: start + 48h
    start_inclusive: false
    end_inclusive: true
    has: { admission: "(None, 0)", discharge: "(None, 0)", death: "(None, 0)" }
  target:
    start: gap.end
    end: start -> discharge_or_death
    start_inclusive: false
    end_inclusive: true
    label: death
"""


def main() -> None:
    """Select the cohort."""
    meds, out = map(Path, sys.argv[1:3])
    files = sorted((meds / "data").rglob("*.parquet"))
    events = pl.concat([pl.read_parquet(file) for file in files], how="diagonal_relaxed")
    events.sort("subject_id", "time").write_parquet(out / "events.parquet")
    (out / "task.yaml").write_text(TASK, encoding="utf-8")
    task = config.TaskExtractorConfig.load(config_path=out / "task.yaml")
    source = DictConfig({"path": str(out / "events.parquet"), "standard": "meds", "ts_format": None})
    found = query.query(task, predicates.get_predicates_df(cfg=task, data_config=source))
    found.select("subject_id", "index_timestamp", "label").sort("subject_id", "index_timestamp").write_parquet(
        out / "cohort.parquet"
    )


if __name__ == "__main__":
    main()

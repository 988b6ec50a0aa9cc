"""The features of meds-tab at the samples' times: counts and values of codes, of the day before and of all the past.

Run in the environment of meds-tab: python meds_tab_features.py MEDS OUT SAMPLES. Writes OUT/features.parquet, a row a
sample, with meds-tab's own commands and settings but for the windows (two of its five).
"""

import subprocess
import sys
from pathlib import Path

import polars as pl
from MEDS_tabular_automl.describe_codes import get_feature_columns
from MEDS_tabular_automl.utils import get_feature_names, load_matrix

WINDOWS = ("1d", "full")
AGGREGATES = ("code/count", "value/count", "value/sum", "value/min", "value/max")


def main() -> None:
    """Tabulate at the samples' times."""
    meds, out, samples = map(Path, sys.argv[1:4])
    asked = pl.read_csv(samples, try_parse_dates=True).rename({"time": "prediction_time"})
    asked = asked.with_columns(pl.col("prediction_time").cast(pl.Datetime("us"))).sort("subject_id", "prediction_time")
    settings = [f"input_dir={meds / 'data'}", f"output_dir={out / 'tab'}", "do_overwrite=True"]
    subprocess.run(["meds-tab-describe", *settings], check=True)
    labels: dict[Path, pl.DataFrame] = {}
    for shard in sorted((meds / "data").glob("*/*.parquet")):
        name = shard.relative_to(meds / "data")
        people = pl.read_parquet(shard, columns=["subject_id"])["subject_id"].unique()
        labels[name] = asked.filter(pl.col("subject_id").is_in(people.to_list()))
        (out / "labels" / name).parent.mkdir(parents=True, exist_ok=True)
        labels[name].select("subject_id", "prediction_time").write_parquet(out / "labels" / name)
    chosen = [f"tabularization.window_sizes=[{','.join(WINDOWS)}]", f"tabularization.aggs=[{','.join(AGGREGATES)}]"]
    subprocess.run(
        ["meds-tab-tabularize-time-series", *settings, *chosen, f"input_label_dir={out / 'labels'}"], check=True
    )
    codes = get_feature_columns(out / "tab" / "metadata" / "codes.parquet")
    parts = [_features(out / "tab" / "tabularize" / name.with_suffix(""), rows, codes) for name, rows in labels.items()]
    pl.concat([part for part in parts if len(part)], how="diagonal_relaxed").write_parquet(out / "features.parquet")


def _features(folder: Path, rows: pl.DataFrame, codes: list[str]) -> pl.DataFrame:
    columns: dict[str, object] = {"stay_id": rows["stay_id"]}
    for window in WINDOWS:
        for aggregate in AGGREGATES:
            values = load_matrix(folder / window / f"{aggregate}.npz").toarray()
            for place, code in enumerate(get_feature_names(aggregate, codes)):
                columns[f"{window}: {aggregate.split('/')[1]} of {code}"] = values[:, place]
    return pl.DataFrame(columns)


if __name__ == "__main__":
    main()

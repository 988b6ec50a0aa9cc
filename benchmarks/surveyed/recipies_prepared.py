"""What ReciPies makes of an hourly table with steps as in YAIB: scaled, carried forward, the maxima so far.

Run in the environment of recipies: python recipies_prepared.py OUT. Reads OUT/hourly.csv, writes OUT/prepared.csv,
the last hour of each subject.
"""

import sys
from pathlib import Path

import polars as pl
from recipies import Ingredients, Recipe
from recipies.selector import all_of
from recipies.step import Accumulator, StepHistorical, StepImputeFill, StepScale


def main() -> None:
    """Prepare the table."""
    out = Path(sys.argv[1])
    table = pl.read_csv(out / "hourly.csv", infer_schema_length=None)
    names = [name for name in table.columns if name not in ("subject_id", "hour")]
    table = table.with_columns(pl.col(names).cast(pl.Float64))
    recipe = Recipe(Ingredients(table), [], names, "subject_id", "hour")
    recipe.add_step(StepScale(sel=all_of(names)))
    recipe.add_step(StepHistorical(sel=all_of(names), fun=Accumulator.MAX, suffix="max_so_far"))
    recipe.add_step(StepImputeFill(sel=all_of(names), strategy="forward"))
    recipe.add_step(StepImputeFill(value=0))
    made = recipe.prep()
    made.sort("subject_id", "hour").group_by("subject_id", maintain_order=True).last().write_csv(out / "prepared.csv")


if __name__ == "__main__":
    main()

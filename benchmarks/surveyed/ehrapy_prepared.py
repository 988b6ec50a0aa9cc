"""What ehrapy makes of a table of last values: missing ones filled from the nearest neighbours.

Run in the environment of ehrapy: python ehrapy_prepared.py OUT. Reads OUT/hourly.csv, writes OUT/neighbours.csv,
a row a subject.
"""

import sys
from pathlib import Path

import ehrapy as ep
import ehrdata as ed
import pandas as pd


def main() -> None:
    """Prepare the table."""
    out = Path(sys.argv[1])
    hourly = pd.read_csv(out / "hourly.csv")
    last = hourly.drop(columns="hour").groupby("subject_id").last()
    names = [name for name in last.columns if last[name].notna().any()]
    data = ed.io.from_pandas(last[names].reset_index(drop=True).astype(float))
    ep.pp.knn_impute(data, n_neighbors=3)
    filled = pd.DataFrame(data.X, columns=names)
    filled.insert(0, "subject_id", last.index)
    filled.to_csv(out / "neighbours.csv", index=False)


if __name__ == "__main__":
    main()

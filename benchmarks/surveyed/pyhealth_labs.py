"""PyHealth's task of death in hospital on MIMIC-IV: the laboratory results of an admission's first 48 hours.

Run in the environment of PyHealth: python pyhealth_labs.py RAW OUT. Writes OUT/labs.csv, a row a time and test, and
OUT/admissions.csv, a row a sample of the task.
"""

import csv
import sys
from pathlib import Path

from pyhealth.datasets import MIMIC4EHRDataset
from pyhealth.tasks import InHospitalMortalityMIMIC4


def main() -> None:
    """Make the task's samples, and write their inputs and labels."""
    raw, out = map(Path, sys.argv[1:3])
    dataset = MIMIC4EHRDataset(root=str(raw), tables=["labevents"], cache_dir=str(out / "cache"), num_workers=1)
    task = InHospitalMortalityMIMIC4()
    with (out / "labs.csv").open("w", newline="") as labs, (out / "admissions.csv").open("w", newline="") as stays:
        results, samples = csv.writer(labs), csv.writer(stays)
        results.writerow(("subject_id", "time", "code", "value"))
        samples.writerow(("hadm_id", "results", "mortality"))
        for patient in dataset.iter_patients():
            for sample in task(patient):
                times, values = sample["labs"]
                found = [
                    (patient.patient_id, time, item, value)
                    for time, row in zip(times, values, strict=True)
                    for item, value in zip(task.LABITEMS, row, strict=True)
                    if value is not None and value == value  # NaN: not measured
                ]
                results.writerows(found)
                samples.writerow((sample["admission_id"], len(found), sample["mortality"]))


if __name__ == "__main__":
    main()

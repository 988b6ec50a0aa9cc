"""Run by another Python: every event of a MEDS data set, as a loader of MEDS users gives it.

python read_meds.py meds_reader|pyhealth FOLDER CACHE OUT    OUT: [[subject, time or null, code, number or null], ...]
"""

import json
import math
import subprocess
import sys
from pathlib import Path


def by_meds_reader(folder, cache):
    import meds_reader  # one loader may be there without the other

    convert = Path(sys.executable).with_name("meds_reader_convert")
    subprocess.run([convert, folder, cache, "--num_threads", "1"], check=True)
    with meds_reader.SubjectDatabase(cache, num_threads=1) as database:
        for subject in database:
            for event in database[subject].events:
                yield subject, event.time, event.code, event.numeric_value


def by_pyhealth(folder, cache):
    from pyhealth.datasets import MEDSDataset

    for patient in MEDSDataset(root=folder, cache_dir=cache, num_workers=1).iter_patients():
        for event in patient.get_events():
            yield int(patient.patient_id), event.timestamp, event.code, event.numeric_value


def plain(subject, time, code, number):
    missing = number is None or number in ("None", "") or math.isnan(float(number))
    return int(subject), None if time is None else time.isoformat(), code, None if missing else float(number)


if __name__ == "__main__":
    loader, folder, cache, out = sys.argv[1:]
    read = {"meds_reader": by_meds_reader, "pyhealth": by_pyhealth}[loader]
    Path(out).write_text(json.dumps([plain(*event) for event in read(folder, cache)]))

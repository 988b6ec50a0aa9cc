"""A benchmark for another licensed site: ids, moments, splits and hashes, from which it is built again and compared."""

from wardround.benchmarks.sharing.rebuilt import rebuild
from wardround.benchmarks.sharing.records import RecordsOfPeople, records_of_people
from wardround.benchmarks.sharing.shared import difference, read_share, share, write_share

__all__ = [
    "RecordsOfPeople",
    "difference",
    "read_share",
    "rebuild",
    "records_of_people",
    "share",
    "write_share",
]

"""Candidate search over 100,000 names: CPU time per query (bar of the design: 5 ms), build, save and load.

    python benchmarks/candidate_speed.py
    python benchmarks/candidate_speed.py --names 20000

Names are synthetic (adjective, site, kind and side, as drug and code dictionaries read); queries are names with typing
slips, half names and names that do not exist. CPU time of this process, median and 95th percentile over 300 queries.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from wardround.clinical.codes import LabelSet, distinct_labels
from wardround.tools.candidates import CandidateSpace

BAR_MS = 5.0
SYLLABLES, KINDS, SITES, FORMS = (
    words.split()
    for words in (
        "ba ce di fo gu ka le mi no pu ra se ti vo xa ze chlo phen thio mab nib pril sartan statin zole",
        "acute chronic recurrent congenital traumatic benign malignant secondary infective",
        "heart lung liver kidney brain bone skin artery vein nerve muscle eye ear bladder spleen",
        "tablet capsule injection infusion cream solution patch spray initial subsequent left right bilateral",
    )
)


def synthetic_names(count: int, seed: int = 7) -> tuple[str, ...]:
    """Distinct names of three to six words."""
    source = random.Random(seed)
    names: set[str] = set()
    while len(names) < count:
        stem = "".join(source.choices(SYLLABLES, k=source.randint(2, 4)))
        words = [source.choice(KINDS), stem, source.choice(SITES), source.choice(FORMS), f"{source.randint(1, 999)}"]
        names.add(" ".join(words[: source.randint(3, 5)]))
    return distinct_labels(names)


def queries(names: tuple[str, ...], count: int, seed: int = 11) -> list[str]:
    """Names with one slip, halves of names, and nonsense."""
    source = random.Random(seed)
    made: list[str] = []
    for number in range(count):
        name = source.choice(names)
        place = source.randrange(len(name))
        slipped = name[:place] + source.choice("aeiou") + name[place + 1 :]
        made.append((slipped, name[: len(name) // 2 + 3], f"un{slipped[::-1]}")[number % 3])
    return made


def measured_ms(search: Callable[[str], object], texts: list[str]) -> list[float]:
    """CPU milliseconds of each search, sorted."""
    spent = []
    for text in texts:
        start = time.process_time()
        search(text)
        spent.append(1000 * (time.process_time() - start))
    return sorted(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", type=int, default=100_000, help="how many names to search (default: %(default)s)")
    names = synthetic_names(parser.parse_args().names)
    start = time.process_time()
    space = CandidateSpace(name="speed", labels=LabelSet(name="speed", labels=names))
    built = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "speed.space"
        space.save(path)
        size = path.stat().st_size
        start = time.process_time()
        space = CandidateSpace.load(path)
        loaded = time.process_time() - start
    print(f"{len(names):,} names: build {built:.2f} s, file {size / 1e6:.1f} MB, load {loaded:.3f} s (CPU)")
    texts = queries(names, 300)
    space.by_meaning(texts[0])
    print(f"{'search':<12} {'median ms':>10} {'p95 ms':>8} {'bar ms':>7}")
    for label, search in (("keyword", space.by_keyword), ("fuzzy", space.by_fuzzy), ("meaning", space.by_meaning)):
        spent = measured_ms(search, texts)
        print(f"{label:<12} {statistics.median(spent):>10.2f} {spent[int(0.95 * len(spent))]:>8.2f} {BAR_MS:>7.1f}")


if __name__ == "__main__":
    main()

"""How long commands take to start: CPU milliseconds over those of Python itself, the median of some starts.

python benchmarks/start_speed.py              # import, --help, run --help and the help of a few commands
python benchmarks/start_speed.py --times 15
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from statistics import median

PROGRAM = "from wardround.cli import main; import sys; sys.exit(main())"
STARTS = {
    "python": ["pass"],
    "import wardround": ["import wardround"],
    **{
        f"wardround {words}": [PROGRAM, *words.split()]
        for words in ("--help", "run --help", "ingest --help", "spec --help", "doctor --help", "report --help")
    },
}


def cpu_ms(words: list[str]) -> float:
    """Return the CPU time of one start. Modules are compiled before, as an installation has them."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", *words], stdout=subprocess.DEVNULL, check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def main() -> None:
    """Start each in turn, again and again, so that what else runs is shared by all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=7)
    times = parser.parse_args().times
    for words in STARTS.values():
        cpu_ms(words)
    found = [{name: cpu_ms(words) for name, words in STARTS.items()} for _ in range(times)]
    own = median(each["python"] for each in found)
    print(f"python: {own:.0f} ms; load {os.getloadavg()[0]:.1f}")
    for name in [*STARTS][1:]:
        print(f"{name}: {median(each[name] for each in found) - own:.0f} ms over it")


if __name__ == "__main__":
    main()

"""Follow the tour and the tutorials as a newcomer would: a wheel outside the tree, an empty folder, the commands there.

    python scripts/follow_tour.py FOLDER                                   # make tour
    python scripts/follow_tour.py FOLDER --transcript docs/tour-transcript.md

The wheel is installed with its core alone, as the tour says; where a page installs an extra, so does this. The
tutorials and the page on publishing continue in the tour's folder. README.md comes last, in a folder of its own, where
path/to/mimic-iv is a small synthetic hospital and no model is served. A server is started, asked for its page and
interrupted. Status 1 where a command fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs" / "tour.md"
TUTORIALS = sorted((REPOSITORY / "docs" / "tutorials").glob("*.md"))
PUBLISHING, README = REPOSITORY / "docs" / "publishing.md", REPOSITORY / "README.md"
HOSPITAL = "wardround synth path/to/mimic-iv --patients 16 --seed 5"
_OF_A_MODEL = re.compile(r" --model \S+ --base-url \S+")
_NOT_FOLLOWED = re.compile(r"make |pip |.* --swap |.*python features\.py")
"""Commands of README.md that are stages of CI, that the tour follows and that take long, or that run a script of the
reader's."""
_SHOWN = 14
"""Lines of a command's output in the transcript."""
_SERVER_SECONDS = 60
HEAD = """# The tour, followed

Written by `make tour TRANSCRIPT=docs/tour-transcript.md`: the wheel in an environment of its own, outside the tree,
then the commands of [the tour](tour.md) and no other. {total:.0f} s of wall time on 2 cores at load {load:.0f}, reading
not counted.
Long outputs are cut.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """One command of the page, and what came of it."""

    words: str
    status: int
    seconds: float
    output: str


def main() -> int:
    """Install, follow, print; write the transcript where one is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a new folder for the environment and what the tour makes")
    parser.add_argument("--transcript", type=Path, help="write what was seen to this page")
    given = parser.parse_args()
    place: Path = given.folder.resolve()
    shutil.rmtree(place, ignore_errors=True)
    (place / "empty").mkdir(parents=True)
    wheel = built(place)
    done: list[Followed] = []
    of_tour = len(list(commands(PAGE)))
    write_files(PUBLISHING, place / "empty")
    continued = dict.fromkeys(words for page in (PAGE, *TUTORIALS, PUBLISHING) for words in commands(page))
    of_readme = (_OF_A_MODEL.sub("", words) for words in commands(README) if not _NOT_FOLLOWED.match(words))
    (place / "readme").mkdir()
    for folder, words in [
        *(("empty", words) for words in continued),
        *(("readme", words) for words in (HOSPITAL, *of_readme)),
    ]:
        done.append(follow(words, place, wheel, place / folder))
        print(f"{done[-1].seconds:6.1f} s  status {done[-1].status}  {words}", flush=True)
        if done[-1].status:
            print(done[-1].output, file=sys.stderr)
            return 1
    print(f"{sum(one.seconds for one in done):6.1f} s in all")
    if given.transcript:
        given.transcript.write_text(transcript(done[:of_tour]), encoding="utf-8")
    return 0


def built(place: Path) -> Path:
    """Build the wheel and an environment without it."""
    shutil.rmtree(REPOSITORY / "build" / "lib", ignore_errors=True)  # modules that are gone would be in the wheel again
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "wheel",
        "--quiet",
        "--no-deps",
        "-w",
        str(place),
    ]
    subprocess.run([*pip, str(REPOSITORY)], check=True)
    subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True)
    (wheel,) = place.glob("*.whl")
    return wheel


def commands(page: Path) -> Iterator[str]:
    """Yield the commands of a page's shell blocks, continued lines as one, comments dropped."""
    for block in re.findall(r"^```sh\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            words = shlex.split(line, comments=True)
            if words:
                yield shlex.join(words)


def write_files(page: Path, folder: Path) -> None:
    """Write the files that a page shows: blocks whose first line is their name as a comment."""
    blocks = re.findall(
        r"^```toml\n# (\w+\.toml)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    for name, text in blocks:
        (folder / name).write_text(text, encoding="utf-8")


def follow(words: str, place: Path, wheel: Path, folder: Path) -> Followed:
    """Run one command in a folder; an installation takes the wheel, and examples are those of this clone."""
    parts = [re.sub(r"^examples/", f"{REPOSITORY}/examples/", part) for part in shlex.split(words)]
    if parts[:2] == ["pip", "install"]:
        extra = parts[2].removeprefix(".")
        pinned = ["--disable-pip-version-check", "-qq", "-c", str(REPOSITORY / "constraints.txt")]
        parts = [str(place / "venv/bin/python"), "-m", "pip", "install", *pinned, f"{wheel}{extra}"]
    else:
        parts[0] = str(place / "venv" / "bin" / parts[0])
    began = time.monotonic()
    serves = shlex.split(words)[:2] == ["wardround", "view"]
    status, output = (serve if serves else run)(parts, folder)
    shown = output.replace(f"{folder}{os.sep}", "")  # where it was followed is this machine's affair
    return Followed(words=words, status=status, seconds=time.monotonic() - began, output=shown)


def run(parts: Sequence[str], folder: Path) -> tuple[int, str]:
    """Run a command to its end; return its status and what it printed."""
    ended = subprocess.run(parts, cwd=folder, env=_clean(), capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


def serve(parts: Sequence[str], folder: Path) -> tuple[int, str]:
    """Start a server, read its page, interrupt it; status 0 where the page came and the server ended as it should."""
    with subprocess.Popen(
        parts, cwd=folder, env=_clean(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        page = _page_of(process)
        process.send_signal(signal.SIGINT)
        output = process.communicate()[0]
    came = "<html" in page.lower()
    return int(not came or process.returncode not in (0, 130, -signal.SIGINT)), output


def _page_of(process: subprocess.Popen[str]) -> str:
    until = time.monotonic() + _SERVER_SECONDS
    while process.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen("http://127.0.0.1:8765/", timeout=10) as answer:
                return str(answer.read().decode())
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.5)
    return ""


def _clean() -> dict[str, str]:
    """The environment without anything of a checkout."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def transcript(done: Sequence[Followed]) -> str:
    """Return the page of what was seen."""
    total = sum(one.seconds for one in done)
    parts = [HEAD.format(total=total, load=os.getloadavg()[2])]
    for one in done:
        lines = [line.rstrip() for line in one.output.replace("\r", "\n").splitlines() if line.strip()]
        shown = lines if len(lines) <= _SHOWN else [*lines[: _SHOWN // 2], "...", *lines[-_SHOWN // 2 :]]
        said = "\n```text\n" + "\n".join(shown) + "\n```\n" if shown else ""
        parts.append(f"`{one.words}` ({one.seconds:.1f} s)\n{said}")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
